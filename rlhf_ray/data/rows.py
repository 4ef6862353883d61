"""Rows of text data, read from a file or written by the built-in grammar. Ids are unique within their source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """What a policy is asked."""

    id: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationRow:
    """A prompt with the answer to imitate."""

    id: str
    prompt: str
    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """A prompt with a better and a worse answer."""

    id: str
    prompt: str
    chosen: str
    rejected: str


AnyRow = PromptRow | DemonstrationRow | PreferenceRow
