"""Rows of text data, read from a file or written by a built-in grammar. Ids are unique within their source."""

from __future__ import annotations

from dataclasses import dataclass

from rlhf_ray.errors import DataError


class RowError(DataError):
    """Why a row cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: str  # system, user or assistant
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a TL;DR is asked for: data/tldr.py renders it."""

    subreddit: str
    title: str
    post: str


Conversation = tuple[Message, ...]
Asked = str | Conversation | Post


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """What a policy is asked."""

    id: str
    prompt: Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationRow:
    """A prompt with the answer to imitate."""

    id: str
    prompt: Asked
    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """A prompt with answers and a label each: of two answers, the one with the higher label is preferred.

    A written pair has the labels 1 (chosen) and 0 (rejected).
    """

    id: str
    prompt: Asked
    answers: tuple[str, ...]
    labels: tuple[float, ...]


AnyRow = PromptRow | DemonstrationRow | PreferenceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSizes:
    """How much a grammar writes. Held-out demonstrations answer held-out prompts, which training never sees."""

    demonstrations: int
    prompts: int
    held_out_prompts: int
    held_out_demonstrations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Everything a built-in job trains and evaluates on."""

    demonstrations: tuple[DemonstrationRow, ...]
    prompts: tuple[PromptRow, ...]
    held_out_prompts: tuple[PromptRow, ...]
    held_out_demonstrations: tuple[DemonstrationRow, ...]
