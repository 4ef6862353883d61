"""Reading text rows from JSON Lines files. Runs before Ray starts: no torch, no tokenizer.

A row's id is its line number. Other formats enter through `_numbered_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from rlhf_ray.data.jsonl import BadRow, JsonRow, read_jsonl
from rlhf_ray.data.rows import DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.errors import DataError

OnBadRow = Literal["error", "skip"]
Row = TypeVar("Row", PromptRow, DemonstrationRow, PreferenceRow)

_MAX_LISTED = 20  # bad rows named in one message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What became of a file's rows; blank lines are not rows."""

    path: Path
    kept: int
    skipped: tuple[BadRow, ...]

    @property
    def summary(self) -> str:
        """One line for the log."""
        return f"{self.path}: kept {self.kept}, skipped {len(self.skipped)}"


def read_prompts(
    path: Path, *, on_bad_row: OnBadRow, special_tokens: tuple[str, ...]
) -> tuple[tuple[PromptRow, ...], ReadReport]:
    """Rows {"prompt": text}. Text that is blank once `special_tokens` are taken out counts as empty.

    Raises DataError for a file that cannot be read, for bad rows unless they are skipped, and where no row is left.
    """

    def parse(row: JsonRow) -> PromptRow | str:
        texts = _texts(row, ("prompt",), special_tokens)
        return texts if isinstance(texts, str) else PromptRow(id=str(row.line), prompt=texts[0])

    return _read(path, parse, on_bad_row=on_bad_row)


def read_demonstrations(
    path: Path, *, on_bad_row: OnBadRow, special_tokens: tuple[str, ...]
) -> tuple[tuple[DemonstrationRow, ...], ReadReport]:
    """Rows {"prompt": text, "response": text}; errors as in read_prompts."""

    def parse(row: JsonRow) -> DemonstrationRow | str:
        texts = _texts(row, ("prompt", "response"), special_tokens)
        if isinstance(texts, str):
            return texts
        return DemonstrationRow(id=str(row.line), prompt=texts[0], response=texts[1])

    return _read(path, parse, on_bad_row=on_bad_row)


def read_preferences(
    path: Path, *, on_bad_row: OnBadRow, special_tokens: tuple[str, ...]
) -> tuple[tuple[PreferenceRow, ...], ReadReport]:
    """Rows {"prompt": text, "chosen": text, "rejected": text}, the two answers different; errors as in read_prompts."""

    def parse(row: JsonRow) -> PreferenceRow | str:
        texts = _texts(row, ("prompt", "chosen", "rejected"), special_tokens)
        if isinstance(texts, str):
            return texts
        prompt, chosen, rejected = texts
        if chosen == rejected:
            return '"chosen" and "rejected" are the same text'
        return PreferenceRow(id=str(row.line), prompt=prompt, answers=(chosen, rejected), labels=(1.0, 0.0))

    return _read(path, parse, on_bad_row=on_bad_row)


def _read(
    path: Path, parse: Callable[[JsonRow], Row | str], *, on_bad_row: OnBadRow
) -> tuple[tuple[Row, ...], ReadReport]:
    """Every row through `parse`, which gives the row or the reason why it cannot be used."""
    kept: list[Row] = []
    bad: list[BadRow] = []
    for item in _numbered_rows(path):
        if isinstance(item, BadRow):
            bad.append(item)
            continue
        row = parse(item)
        if isinstance(row, str):
            bad.append(BadRow(line=item.line, reason=row))
        else:
            kept.append(row)
    if not kept:
        raise DataError(f"{path}: no usable row" + _listing(bad))
    if bad and on_bad_row == "error":
        raise DataError(
            f"{path}: {len(bad)} of {len(bad) + len(kept)} rows cannot be used (on_bad_row=skip would leave them out)"
            + _listing(bad)
        )
    return tuple(kept), ReadReport(path=path, kept=len(kept), skipped=tuple(bad))


def _numbered_rows(path: Path) -> Iterator[JsonRow | BadRow]:
    """Rows with their line numbers. DataError for a path that is no readable, non-empty file."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if not path.is_file():
        raise DataError(f"{path}: not a file; accepted: one JSON Lines file")
    if path.suffix == ".parquet":
        raise DataError(f"{path}: Parquet is not read; accepted: a JSON Lines file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    return read_jsonl(path)


def _listing(bad: list[BadRow]) -> str:
    lines = [f"\n  line {row.line}: {row.reason}" for row in bad[:_MAX_LISTED]]
    more = len(bad) - len(lines)
    return "".join(lines) + (f"\n  and {more} more" if more else "")


def _texts(row: JsonRow, keys: tuple[str, ...], special_tokens: tuple[str, ...]) -> tuple[str, ...] | str:
    """The row's texts under these keys, or why it has none."""
    if not isinstance(row.value, dict):
        return f"{_kind(row.value)} instead of an object with {_quoted(keys)}"
    texts = []
    for key in keys:
        if key not in row.value:
            return f"no key {_quoted((key,))} (the row has {_quoted(tuple(row.value)) or 'no keys'})"
        value = row.value[key]
        reason = _why_no_text(value, special_tokens)
        if reason is not None:
            return f'"{key}" is {reason}; accepted: a non-empty string'
        texts.append(value)
    return tuple(texts)


def _why_no_text(value: object, special_tokens: tuple[str, ...]) -> str | None:
    """What is wrong with a field; None for usable text."""
    if not isinstance(value, str):
        return _kind(value)
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "not valid Unicode (a lone surrogate)"
    rest = value
    for token in special_tokens:
        rest = rest.replace(token, "")
    if not rest.strip():
        return "empty" if not value.strip() else "nothing but special tokens"
    return None


def _kind(value: object) -> str:
    """A JSON value in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case []:
            return "an empty list"
        case [{"role": _, **_rest}, *_]:
            return "a list of chat messages, and this file is read as plain text"
        case list():
            return "a list"
        case _:
            return "an object"


def _quoted(keys: tuple[str, ...]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
