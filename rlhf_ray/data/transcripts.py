r"""Dialogues written as one text, as in Anthropic's HH data: "\n\nHuman: ...\n\nAssistant: ..."."""

from __future__ import annotations

import re

from rlhf_ray.data.rows import Conversation, Message

ANSWER = "\n\nAssistant:"
_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def is_transcript(text: str) -> bool:
    """Whether it begins with a turn of the human and holds one of the assistant."""
    first = _TURN.match(text.lstrip("\n"))
    return first is not None and first[1] == "Human" and ANSWER in text


def split_transcript(text: str) -> tuple[str, str]:
    """What comes before the last answer, with the words that ask for it, and the answer with its leading space."""
    before, mark, answer = text.rpartition(ANSWER)
    return before + mark, answer


def transcript_messages(text: str) -> Conversation:
    """The turns; an empty last one, which only asks for an answer, is left out."""
    parts = _TURN.split(text)[1:]
    turns = [
        Message(role=_ROLES[name], content=content.strip())
        for name, content in zip(parts[::2], parts[1::2], strict=True)
    ]
    return tuple(turns if turns[-1].content else turns[:-1])
