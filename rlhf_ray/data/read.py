"""Reading rows of prompts, demonstrations and preferences. Runs before Ray starts: no torch, no tokenizer.

A row's id is its number in its source. Rows come one after the other, so that a source may be larger than memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from rlhf_ray.data.jsonl import BadRow
from rlhf_ray.data.layout import Layout, parse_demonstration, parse_preference, parse_prompt
from rlhf_ray.data.rows import DemonstrationRow, PreferenceRow, PromptRow, RowError
from rlhf_ray.data.sources import numbered_rows
from rlhf_ray.errors import DataError

OnBadRow = Literal["error", "skip"]
Row = TypeVar("Row", PromptRow, DemonstrationRow, PreferenceRow)

_MAX_LISTED = 20  # reasons in one message, and lines named for each


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why some rows of a file cannot be used."""

    reason: str
    count: int
    lines: tuple[int, ...]  # the first of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What became of a file's rows; blank lines are not rows."""

    path: Path
    kept: int
    num_skipped: int
    faults: tuple[Fault, ...]  # the first of them, in the order of their first lines

    @property
    def summary(self) -> str:
        """One line for the log."""
        return f"{self.path}: kept {self.kept}, skipped {self.num_skipped}"


class RowStream(Generic[Row]):
    """The usable rows of a source, read anew by every iteration; `report` then says what became of all rows.

    Iterating raises DataError for a source that cannot be read, at its end for bad rows unless they are skipped, and
    where no row is usable.
    """

    def __init__(
        self, path: Path, parse: Callable[[str, object, Layout], Row], *, layout: Layout, on_bad_row: OnBadRow
    ) -> None:
        self._path = path
        self._parse: Callable[[str, object, Layout], Row] = parse
        self._layout = layout
        self._on_bad_row = on_bad_row
        self.report = ReadReport(path=path, kept=0, num_skipped=0, faults=())

    def __iter__(self) -> Iterator[Row]:
        kept, num_bad, bad = 0, 0, _Faults()
        for item in numbered_rows(self._path):
            if isinstance(item, BadRow):
                problem = item
            else:
                try:
                    row = self._parse(str(item.line), item.value, self._layout)
                except RowError as error:
                    problem = BadRow(line=item.line, reason=str(error))
                else:
                    kept += 1
                    yield row
                    continue
            num_bad += 1
            bad.add(problem)
        self.report = ReadReport(path=self._path, kept=kept, num_skipped=num_bad, faults=bad.found())
        self._refuse()

    def that_pass(self, check: Callable[[Row], None]) -> RowStream[Row]:
        """The same rows, where those that `check` refuses by a RowError are bad rows, too."""

        def parse(row_id: str, value: object, layout: Layout) -> Row:
            row = self._parse(row_id, value, layout)
            check(row)
            return row

        return RowStream(self._path, parse, layout=self._layout, on_bad_row=self._on_bad_row)

    def count(self) -> int:
        """Number of usable rows."""
        return sum(1 for _ in self)

    def _refuse(self) -> None:
        report = self.report
        if not report.kept:
            raise DataError(f"{self._path}: no usable row" + listing(report))
        if report.num_skipped and self._on_bad_row == "error":
            raise DataError(
                f"{self._path}: {report.num_skipped} of {report.num_skipped + report.kept} rows cannot be used "
                "(on_bad_row=skip would leave them out)" + listing(report)
            )


class _Faults:
    """Bad rows by their reasons; what is kept of them is bounded, however many there are."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._lines: dict[str, list[int]] = {}

    def add(self, row: BadRow) -> None:
        if row.reason not in self._counts and len(self._counts) == _MAX_LISTED:
            return
        self._counts[row.reason] += 1
        lines = self._lines.setdefault(row.reason, [])
        if len(lines) < _MAX_LISTED:
            lines.append(row.line)

    def found(self) -> tuple[Fault, ...]:
        return tuple(
            Fault(reason=reason, count=count, lines=tuple(self._lines[reason]))
            for reason, count in self._counts.items()
        )


def read_prompts(path: Path, *, layout: Layout, on_bad_row: OnBadRow) -> RowStream[PromptRow]:
    """See layout.parse_prompt."""
    return RowStream(path, _prompt_row, layout=layout, on_bad_row=on_bad_row)


def read_demonstrations(path: Path, *, layout: Layout, on_bad_row: OnBadRow) -> RowStream[DemonstrationRow]:
    """See layout.parse_demonstration."""
    return RowStream(path, _demonstration_row, layout=layout, on_bad_row=on_bad_row)


def read_preferences(path: Path, *, layout: Layout, on_bad_row: OnBadRow) -> RowStream[PreferenceRow]:
    """See layout.parse_preference."""
    return RowStream(path, _preference_row, layout=layout, on_bad_row=on_bad_row)


def listing(report: ReadReport) -> str:
    """What is wrong with the bad rows, a line for each reason."""
    lines = [f"\n  {_named(fault.lines, fault.count)}: {fault.reason}" for fault in report.faults]
    more = report.num_skipped - sum(fault.count for fault in report.faults)
    return "".join(lines) + (f"\n  and {more} more rows, for other reasons" if more else "")


def _named(lines: Sequence[int], count: int) -> str:
    more = f" and {count - len(lines)} more" if count > len(lines) else ""
    return ("line " if count == 1 else "lines ") + ", ".join(map(str, lines)) + more


def _prompt_row(row_id: str, value: object, layout: Layout) -> PromptRow:
    return PromptRow(id=row_id, prompt=parse_prompt(value, layout))


def _demonstration_row(row_id: str, value: object, layout: Layout) -> DemonstrationRow:
    prompt, response = parse_demonstration(value, layout)
    return DemonstrationRow(id=row_id, prompt=prompt, response=response)


def _preference_row(row_id: str, value: object, layout: Layout) -> PreferenceRow:
    prompt, answers, labels = parse_preference(value, layout)
    return PreferenceRow(id=row_id, prompt=prompt, answers=answers, labels=labels)
