"""JSON Lines: one JSON value per line, lines counted from 1, with or without CR, byte-order mark or final newline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.errors import DataError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRow:
    """A line that is valid JSON; keys are the row's own, never another row's."""

    line: int
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A line that cannot be used, and why."""

    line: int
    reason: str


def read_jsonl(path: Path) -> Iterator[JsonRow | BadRow]:
    """The lines of a file that are not blank. Raises DataError where the system refuses to read it."""
    try:
        with path.open("rb") as file:
            for line, data in enumerate(file, start=1):
                text = data.removeprefix(_BYTE_ORDER_MARK) if line == 1 else data
                if text.strip():
                    yield _parse(line, text.rstrip(b"\r\n"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """ValueError for a key that is there twice: which of its values is meant, nobody can tell."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"the key {repeated!r} is there twice")
    return found


def _parse(line: int, data: bytes) -> JsonRow | BadRow:
    try:
        return JsonRow(line=line, value=json.loads(data.decode("utf-8"), object_pairs_hook=_object))
    except UnicodeDecodeError as error:
        return BadRow(line=line, reason=f"not UTF-8 at byte {error.start + 1} of the line")
    except json.JSONDecodeError as error:
        return BadRow(line=line, reason=f"not valid JSON: {error.msg} at column {error.colno}")
    except ValueError as error:  # a repeated key, or a number of more digits than Python converts
        return BadRow(line=line, reason=f"not usable JSON: {error}")
    except RecursionError:
        return BadRow(line=line, reason="not usable JSON: nested too deep")
