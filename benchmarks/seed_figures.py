"""The table of seeds in README.md and its picture, made from run directories.

python -m rlhf_ray.train -m seed=1,2,3
python benchmarks/seed_figures.py RUN_DIRECTORY RUN_DIRECTORY RUN_DIRECTORY
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.errors import DataError
from rlhf_ray.files.atomic import write_text_atomic
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.tracking.picture import draw_seeds
from rlhf_ray.tracking.records import RunStatus, read_run
from rlhf_ray.tracking.summary import Places, summarise

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- seed figures: begin -->", "<!-- seed figures: end -->"
NOT_MEASURED = "-"


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """One finished run."""

    seed: int
    rows: Sequence[Mapping[str, Any]]  # metrics.jsonl
    before: Mapping[str, float]
    after: Mapping[str, float]
    reward_model: Mapping[str, float]


def read_seed_run(run_dir: Path) -> SeedRun:
    """Raises DataError for a directory without records, or of a run that did not finish."""
    run = read_run(run_dir)
    if run["status"] != RunStatus.FINISHED:
        raise DataError(f"{run_dir}: the run is {run['status']}; figures are made from finished runs")
    rows = read_jsonl(run_dir / "metrics.jsonl")
    summary = summarise(rows, answers=(), seconds={}, places=Places(model=None, records=run_dir))
    return SeedRun(
        seed=run["seed"],
        rows=rows,
        before=summary.get("before", {}),
        after=summary.get("after", {}),
        reward_model=summary.get("reward_model", {}),
    )


def both(name: str, pattern: str) -> Callable[[SeedRun], str]:
    """A measure before and after PPO."""
    return lambda run: f"{shown(run.before, name, pattern)} → {shown(run.after, name, pattern)}"


def last(name: str, pattern: str) -> Callable[[SeedRun], str]:
    """A measure after PPO."""
    return lambda run: shown(run.after, name, pattern)


def reward_model(name: str) -> Callable[[SeedRun], str]:
    """A share of pairs that the reward model orders as gold does."""
    return lambda run: shown(run.reward_model, f"reward_model/{name}", "{:.1%}")


def win_rate(run: SeedRun) -> str:
    """With its interval."""
    value, low, high = (shown(run.after, f"eval/win_rate{end}", "{:.1%}") for end in ("", "_low", "_high"))
    return f"{value} ({low} to {high})"


def shown(values: Mapping[str, float], name: str, pattern: str) -> str:
    """A number as text."""
    return pattern.format(values[name]) if name in values else NOT_MEASURED


LINES: tuple[tuple[str, Callable[[SeedRun], str]], ...] = (
    ("gold score, before → after", both("eval/gold_score", "{:+.3f}")),
    ("reward-model score, before → after", both("eval/proxy_score", "{:+.3f}")),
    ("win rate against the start (95 % interval)", win_rate),
    ("KL to the start, nats per answer", last("eval/kl", "{:.2f}")),
    ("distinct bigrams, before → after", both("eval/distinct_2", "{:.3f}")),
    ("repeated 4-grams", last("eval/repetition_4gram", "{:.4f}")),
    ("answers that end by themselves", last("eval/eos_rate", "{:.1%}")),
    ("perplexity of held-out text, before → after", both("eval/perplexity", "{:.2f}")),
    ("reward model right, all held-out pairs", reward_model("val_accuracy")),
    ("reward model right, pairs 0.1 or more apart", reward_model("val_accuracy_clear")),
    ("reward model agrees with gold, before → after", both("eval/preference_accuracy", "{:.1%}")),
)


def seed_table(runs: Sequence[SeedRun]) -> str:
    """Markdown, a column a seed."""
    lines = [["", *(f"seed {run.seed}" for run in runs)]]
    lines += [[label, *(measure(run) for run in runs)] for label, measure in LINES]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    padded.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in padded)


def put_between_marks(text: str, table: str) -> str:
    """The page with what stands between the two marks replaced. Raises DataError where they are missing."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise DataError(f"the page has no lines {BEGIN} and {END} to put the table between")
    return f"{head}{BEGIN}\n\n{table}\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIRECTORY")
    parser.add_argument("--page", type=Path, default=ROOT / "README.md", help="page with the two marks")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "pictures" / "seeds.png")
    given = parser.parse_args(arguments)
    try:
        runs = [read_seed_run(run_dir) for run_dir in given.run_dirs]
        by_seed = {run.seed: run.rows for run in runs}
        if len(by_seed) < len(runs):
            raise DataError(f"runs of different seeds are compared; these have {[run.seed for run in runs]}")
        table = seed_table(runs)
        write_text_atomic(given.page, put_between_marks(given.page.read_text(encoding="utf-8"), table))
        draw_seeds(by_seed, given.picture)
    except DataError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
