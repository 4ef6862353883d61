"""python -m rlhf_ray.compare RUNS_OR_SWEEP... [--out DIR] [--picture FILE]   compares runs over seeds and settings.

Each path is a run directory or a folder of them. Prints tables; writes compare.html and compare.csv, beside the runs
where no other place is named. Exit code: 0, 2 where a path holds no run, or none that can be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from rlhf_ray.errors import DataError, RlhfRayError
from rlhf_ray.files.atomic import write_text_atomic
from rlhf_ray.tracking.comparison import Comparison, compare
from rlhf_ray.tracking.comparison_page import (
    comparison_csv,
    comparison_page,
    correlation_words,
    shown_figures,
    warnings,
    words,
)
from rlhf_ray.tracking.console import table_console
from rlhf_ray.tracking.run_curves import find_runs, read_curves

DONE, REFUSED = 0, 2


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.compare", description="runs side by side")
    parser.add_argument("paths", nargs="+", type=Path, help="run directories, or folders of them (a sweep)")
    parser.add_argument("--out", type=Path, help="where compare.html and compare.csv go (beside the first run)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the curves as this PNG, too")
    given = parser.parse_args(arguments)
    try:
        folders = find_runs(given.paths)
        comparison = read_comparison(folders)
        written = write(comparison, given.out or folders[0].parent, picture=given.picture)
    except (RlhfRayError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return REFUSED
    console = table_console()
    for block in blocks(comparison):
        console.print(block)
    for path in written:
        console.print(Text(f"wrote {path}"), soft_wrap=True)
    return DONE


def read_comparison(folders: Sequence[Path]) -> Comparison:
    """Of the runs that can be read. Raises DataError where none can."""
    runs, unreadable = [], []
    for folder in folders:
        try:
            runs.append(read_curves(folder))
        except DataError as error:
            unreadable.append(str(error))
    if not runs:
        raise DataError("\n".join(unreadable))
    return compare(runs, unreadable=unreadable)


def write(comparison: Comparison, folder: Path, *, picture: Path | None) -> list[Path]:
    """The page, the table and, where one is wanted, the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / "compare.html", folder / "compare.csv"
    write_text_atomic(page, comparison_page(comparison))
    write_text_atomic(table, comparison_csv(comparison))
    if picture is None:
        return [page, table]
    from rlhf_ray.tracking.comparison_picture import draw_comparison  # noqa: PLC0415  matplotlib, where it is wanted

    draw_comparison(comparison, picture)
    return [page, table, picture]


def blocks(comparison: Comparison) -> Iterator[RenderableType]:
    """What a person is told."""
    for group in comparison.groups:
        seeds = [Column(f"seed {run.seed}", justify="right") for run in group.runs]
        head: list[Column | str] = [
            Column("metric", no_wrap=True),
            "mean",
            "IQM",
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
    yield Text(correlation_words(comparison.correlation))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
