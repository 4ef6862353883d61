"""Every metric by name: what it is, in which unit, and how it adds up. A name that is not here cannot be recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from rlhf_ray.errors import MetricError
from rlhf_ray.tracking.metric import Metric
from rlhf_ray.tracking.metrics_foreign import FOREIGN_METRICS
from rlhf_ray.tracking.metrics_ppo import PPO_METRICS
from rlhf_ray.tracking.metrics_run import RUN_METRICS
from rlhf_ray.tracking.metrics_supervised import SUPERVISED_METRICS

METRICS: tuple[Metric, ...] = SUPERVISED_METRICS + PPO_METRICS + RUN_METRICS + FOREIGN_METRICS


def describe(name: str) -> Metric:
    """The entry of a metric. Raises MetricError for an unknown name, with the nearest known one."""
    for metric in METRICS:
        if _pattern(metric.name).fullmatch(name):
            return metric
    near = get_close_matches(name, [metric.name for metric in METRICS], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise MetricError(f"unknown metric {name}{hint} Known ones are listed in tracking/registry.py and docs/metrics.md")


def check_names(names: Iterable[str]) -> None:
    """Raise MetricError for the first name that the registry does not know."""
    for name in names:
        describe(name)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """`<scorer>` stands for one name of letters, digits, `_`, `-` and `.`."""
    return re.compile(re.sub(r"<\w+>", r"[\\w.-]+", re.escape(name)))
