"""A log as it was read: columns under their own names, one row index a value."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rlhf_ray.doctor.numbers import is_missing, number_of

_DEEPEST = 3


@dataclass(kw_only=True)
class RawColumn:
    """The numbers of one column, NaN and infinities included; where a row has none, nothing is kept."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    num_texts: int = 0  # cells that are no number
    text: str = ""  # the first of them


@dataclass(kw_only=True)
class RawLog:
    """What a reader gives."""

    format: str
    columns: dict[str, RawColumn] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)  # per row; "" where it does not say
    settings: dict[str, object] = field(default_factory=dict)  # under their own, dotted names
    notes: list[str] = field(default_factory=list)
    rules: str | None = None  # the file of the run's own thresholds

    @property
    def num_rows(self) -> int:
        """Rows so far."""
        return len(self.stages)

    def add_row(self, row: Mapping[str, object]) -> None:
        """One row of cells; nested objects become `outer/inner`, what is no number is counted."""
        stage = row.get("stage")
        index = len(self.stages)
        self.stages.append(stage if isinstance(stage, str) else "")
        for name, cell in row.items():
            column = self.columns.get(name)
            if type(cell) is float and column is not None:  # nearly all cells: a long log is read in a second
                column.rows.append(index)
                column.values.append(cell)
            else:
                self._add(name, cell, index, depth=0)

    def add_rows(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Several of them."""
        for row in rows:
            self.add_row(row)

    def _add(self, name: str, cell: object, index: int, *, depth: int) -> None:
        if isinstance(cell, Mapping):
            if "_type" not in cell and depth < _DEEPEST:
                for inner, value in cell.items():
                    self._add(f"{name}/{inner}", value, index, depth=depth + 1)
        elif not is_missing(cell) and not isinstance(cell, list):
            # how this project's writer says NaN, which JSON does not have
            plain = name.removesuffix("/nonfinite")
            column = self.columns.setdefault(plain, RawColumn())
            number = number_of(cell)
            if number is None:
                column.num_texts += 1
                column.text = column.text or str(cell)[:40]
            else:
                column.rows.append(index)
                column.values.append(number)


def flat_settings(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
