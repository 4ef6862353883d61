"""JSON Lines: one object a line. Also our own metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.errors import DataError


def read_jsonl(path: Path) -> RawLog:
    """All lines that are objects; the others are counted. Raises DataError where no line is one."""
    raw = RawLog(format="JSON Lines")
    bad: list[int] = []
    number = 0
    for number, line in _lines(path):
        row = parse(line)
        if isinstance(row, dict):
            raw.add_row(row)
        else:
            bad.append(number)
    if bad and not raw.num_rows:
        raise DataError(f"{path}, line {bad[0]}: not a JSON object; each line must be one")
    if bad == [number]:
        raw.notes.append(f"line {number} (the last) is cut: left out")
    elif bad:
        raw.notes.append(f"{len(bad)} lines are not JSON objects (the first: {bad[0]}): left out")
    return raw


def parse(text: str) -> object:
    """The value, or None where this is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line
