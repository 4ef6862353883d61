"""What the rows of a file are likely meant to be, by the keys of the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rlhf_ray.data.jsonl import JsonRow
from rlhf_ray.data.layout import COMPLETION, POST_KEYS, SUMMARY, Layout
from rlhf_ray.data.sources import numbered_rows
from rlhf_ray.data.transcripts import is_transcript, split_transcript

Kind = Literal["prompts", "demonstrations", "preferences"]
KINDS: tuple[Kind, ...] = ("preferences", "demonstrations", "prompts")  # from the most demanding
Fields = dict[str, Any]
FIRST_ROWS = 20
LIKENESS = 0.75  # of a misspelt key: "reject" is 0.86 like "rejected"
ELSEWHERE = ("answer", "output")  # what others call an answer, and this program does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A kind, and what it was guessed from."""

    kind: Kind
    reason: str


def guess_kind(path: Path, layout: Layout) -> Guess:
    """Preferences before demonstrations before prompts: the former can be read as the latter, too.

    A key that is only like one of theirs counts, lest a misspelt file pass for prompts. DataError for a source that
    cannot be read.
    """
    rows = [
        (item.line, item.value)
        for item in islice(numbered_rows(path), FIRST_ROWS)
        if isinstance(item, JsonRow) and isinstance(item.value, dict)
    ]
    for kind, sign_in in _signs(layout):
        for line, row in rows:
            sign = sign_in(row)
            if sign is not None:
                return Guess(kind=kind, reason=f"line {line} has {sign}")
    return Guess(kind="prompts", reason=f"none of the first {FIRST_ROWS} lines has an answer")


def _signs(layout: Layout) -> Iterator[tuple[Kind, Callable[[Fields], str | None]]]:
    """Functions that name what speaks for a kind, the strongest first."""
    columns = layout.columns
    compared = (columns.chosen, columns.rejected, columns.completions)
    answers = (columns.response, COMPLETION, SUMMARY)
    asked = {columns.prompt, columns.messages, *POST_KEYS}
    yield "preferences", lambda row: _key_in(row, compared)
    yield "demonstrations", lambda row: _key_in(row, answers)
    yield "demonstrations", lambda row: _last_answer_in(row, layout)
    yield "preferences", lambda row: _key_in(row, (columns.labels,))
    yield "preferences", lambda row: _like_key_in(row, compared, others=asked)
    yield "demonstrations", lambda row: _like_key_in(row, (*answers, *ELSEWHERE), others=asked)


def _key_in(row: Fields, names: tuple[str, ...]) -> str | None:
    return next((f'"{name}"' for name in names if name in row), None)


def _like_key_in(row: Fields, names: tuple[str, ...], *, others: set[str]) -> str | None:
    """Of keys that hold text: numbers are not answers, whatever they are called."""
    for key, value in row.items():
        if key in others or not isinstance(value, str | list):
            continue
        word = key.lower()
        like = [name for name in names if name in word] or get_close_matches(word, names, n=1, cutoff=LIKENESS)
        if like:
            return f'"{key}", a key like "{like[0]}"'
    return None


def _last_answer_in(row: Fields, layout: Layout) -> str | None:
    """A conversation that ends with an answer, where no prompt is there to be read instead."""
    name = layout.columns.messages
    if layout.columns.prompt in row or name not in row:
        return None
    value = row[name]
    if isinstance(value, str):
        ends = layout.format == "chat" and is_transcript(value) and bool(split_transcript(value)[1].strip())
    else:
        last = value[-1] if isinstance(value, list) and value else None
        ends = isinstance(last, dict) and last.get("role") == "assistant"
    return f'"{name}" that end with a turn of the assistant' if ends else None
