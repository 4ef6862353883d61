"""docs/metrics.md, made from the registry: `python -m rlhf_ray.tracking.metrics_page docs/metrics.md`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rlhf_ray.tracking.metric import Metric
from rlhf_ray.tracking.metrics_foreign import FOREIGN_METRICS
from rlhf_ray.tracking.metrics_ppo import OBJECTIVE, POLICY, RESPONSE, REWARD, ROLLOUT, VALUE
from rlhf_ray.tracking.metrics_run import DATA, EVALUATION, THROUGHPUT, TIME
from rlhf_ray.tracking.metrics_supervised import SUPERVISED_METRICS

SECTIONS: tuple[tuple[str, Sequence[Metric]], ...] = (
    ("Objective", OBJECTIVE),
    ("Policy", POLICY),
    ("Critic", VALUE),
    ("Answers", RESPONSE),
    ("Rewards", REWARD),
    ("Generator and self check", ROLLOUT),
    ("Data", DATA),
    ("Evaluation", EVALUATION),
    ("Supervised stages", SUPERVISED_METRICS),
    ("Time", TIME),
    ("Throughput and progress", THROUGHPUT),
    ("In the logs of other trainers: read by the doctor, never recorded here", FOREIGN_METRICS),
)

HEAD = """# Metrics

Written by `python -m rlhf_ray.tracking.metrics_page docs/metrics.md` from the registry in `rlhf_ray/tracking/`;
change it there. Each line of a run's `metrics.jsonl` is one step of one stage: `{"stage": "ppo", "step": 12, ...}`.

The names are those of TRL's PPO trainer where it has one. The values are weighted over the whole batch: a mean over
tokens is the sum over all trained tokens divided by their number, whatever the minibatches, ranks and padding. A value
that is not defined is `null`; one that is not finite is `null` with `"<name>/nonfinite": "nan" | "inf" | "-inf"` beside
it.
"""


def metrics_page() -> str:
    """The page as Markdown."""
    return HEAD + "".join(f"\n## {title}\n\n{_table(metrics)}" for title, metrics in SECTIONS)


def _table(metrics: Sequence[Metric]) -> str:
    rows = [Metric("name", "formula", "unit", "reduction"), Metric("---", "---", "---", "---")]
    rows += [metric._replace(name=f"`{metric.name}`", formula=metric.formula.replace("|", "\\|")) for metric in metrics]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(metrics_page(), encoding="utf-8")
