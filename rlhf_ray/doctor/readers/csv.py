"""Comma-, tab-, semicolon- or bar-separated text with a line of names."""

from __future__ import annotations

import csv
from pathlib import Path

from rlhf_ray.doctor.numbers import number_of
from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.errors import DataError

_SEPARATORS = (",", "\t", ";", "|")
_LONGEST_CELL = 1 << 20
_RULE = "-:| \t"  # a line of these alone is drawn under the names


def read_csv(path: Path) -> RawLog:
    """Rows under the names of the first line. Raises DataError where that is none, or a cell has no end."""
    csv.field_size_limit(_LONGEST_CELL)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = next((line for line in file if line.strip()), "")
        separator = max(_SEPARATORS, key=head.count)
        names = [name.strip() for name in next(csv.reader([head], delimiter=separator), [])]
        _check_names(names, path)
        raw = RawLog(format="CSV" if separator == "," else "separated text")
        cut, lines = [], 0
        try:
            for cells in csv.reader((line.replace("\0", "") for line in file), delimiter=separator):
                if not "".join(cells).strip(_RULE):
                    continue
                lines += 1
                if len(cells) < len(names):
                    cut.append(lines)
                raw.add_row(dict(zip(names, map(_plain, cells), strict=False)))
        except csv.Error as error:
            raise DataError(f"{path}, row {lines + 1}: not separated text ({error})") from error
    if cut:
        raw.notes.append(f"{len(cut)} rows have fewer cells than there are names (the first: row {cut[0]})")
    return raw


def _plain(cell: str) -> object:
    """Numbers as such, so that long files are read fast; the rest as it is."""
    try:
        return float(cell)
    except ValueError:
        return cell


def _check_names(names: list[str], path: Path) -> None:
    if sum(1 for name in names if name) < 2:
        raise DataError(
            f"{path} is none of the formats that are read: a run directory, JSON Lines, CSV or TSV with a line of "
            "names, trainer_state.json, TensorBoard event files, W&B .wandb files and exported histories"
        )
    if all(number_of(name) is not None for name in names if name):
        raise DataError(f"{path}: the first line has only numbers ({', '.join(names[:5])}); it must name the columns")
