"""python -m rlhf_ray.compare RUNS_OR_SWEEP... [--out DIR]   compares runs: over seeds, and with other settings.

Each path is a run directory or a folder of them. Prints tables; writes compare.html and compare.csv.
Exit code: 0, 2 where a path holds no run that can be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from rlhf_ray.errors import RlhfRayError
from rlhf_ray.files.atomic import write_text_atomic
from rlhf_ray.tracking.comparison import Comparison, compare
from rlhf_ray.tracking.comparison_page import comparison_csv, comparison_page, shown_figures, warnings, words
from rlhf_ray.tracking.run_curves import find_runs, read_curves

DONE, REFUSED = 0, 2
PLAIN_WIDTH = 160  # characters, where the output is no terminal


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.compare", description="runs side by side")
    parser.add_argument("paths", nargs="+", type=Path, help="run directories, or folders of them (a sweep)")
    parser.add_argument("--out", type=Path, default=Path(), help="where compare.html and compare.csv go (here)")
    given = parser.parse_args(arguments)
    try:
        comparison = compare([read_curves(folder) for folder in find_runs(given.paths)])
        given.out.mkdir(parents=True, exist_ok=True)
        write_text_atomic(given.out / "compare.html", comparison_page(comparison))
        write_text_atomic(given.out / "compare.csv", comparison_csv(comparison))
    except (RlhfRayError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return REFUSED
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    for block in blocks(comparison):
        console.print(block)
    console.print(Text(f"{given.out / 'compare.html'}, {given.out / 'compare.csv'}"))
    return DONE


def blocks(comparison: Comparison) -> Iterator[RenderableType]:
    """What a person is told."""
    for group in comparison.groups:
        seeds = [Column(f"seed {run.seed}", justify="right") for run in group.runs]
        head: list[Column | str] = [
            Column("metric", no_wrap=True),
            "mean",
            "middle mean",
            Column("95 % interval", no_wrap=True),
        ]
        table = Table(*head, *seeds, title=group.name, title_justify="left")
        for one in shown_figures(comparison.figures[group.name]):
            interval = "" if one.low is None else f"{words(one.low)} to {words(one.high)}"
            table.add_row(one.metric, words(one.mean), words(one.iqm), interval, *map(words, one.values))
        yield table
    if comparison.differing:
        table = Table("setting that differs", *(Column(run.run_id, overflow="fold") for run in comparison.runs))
        for key, values in comparison.differing.items():
            table.add_row(key, *map(str, values))
        yield table
    for line in warnings(comparison):
        yield Text(line, style="bold red")
    found = comparison.correlation
    if found is not None:
        yield Text(
            f"reward-model accuracy and final win rate: correlation {found.pearson:+.2f} over {found.pairs} runs "
            f"(p = {found.p_value:.2g})"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
