"""JSON Lines that survive a crash of their writer."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rlhf_ray.errors import DataError


class JsonlWriter:
    """Appends one object per line; a line is with the operating system when `append` returns.

    What a crashed writer left as half a line is moved to `<name>.cut` when the file is opened again.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _set_cut_line_aside(path)
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one object. NaN and infinities become null with `"<name>/nonfinite": "nan" | "inf" | "-inf"` beside.

        Raises OSError (disk full, file too large, file removed); the file then ends where it did before.
        """
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "removed while it was written", str(self._path))
        line = json.dumps(finite_row(row), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        end = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise

    def close(self) -> None:
        """Give the file back. A closed writer cannot be used again."""
        os.close(self._descriptor)

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finite_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row in JSON's own types, with non-finite numbers as null and a flag."""
    clean: dict[str, Any] = {}
    for name, value in row.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, float) and not math.isfinite(plain):
            clean[name] = None
            clean[f"{name}/nonfinite"] = str(plain)
        else:
            clean[name] = plain
    return clean


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All complete lines. A last line that a crash cut is left out; any other bad line raises DataError."""
    *lines, tail = path.read_bytes().split(b"\n")
    rows = [_parse_line(line, path, number) for number, line in enumerate(lines, start=1)]
    if _is_object(tail):
        rows.append(json.loads(tail))
    return rows


def _parse_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}); each line must be one JSON object") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}: a {type(row).__name__}; each line must be one JSON object")
    return row


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _set_cut_line_aside(path: Path) -> None:
    content = path.read_bytes()
    start = content.rfind(b"\n") + 1
    tail = content[start:]
    if not tail:
        return
    with path.open("r+b") as file:
        if _is_object(tail):  # only the line end is missing
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
            return
        with path.with_name(path.name + ".cut").open("ab") as aside:
            aside.write(tail + b"\n")
        file.truncate(start)
