"""Held-out demonstrations as a task: their prompts are answered, and the answers compared with theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlhf_ray.types import Prompts, Ragged, Sequences

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def imitation_rows(sequences: Sequences, *, count: int, max_prompt_tokens: int) -> list[int]:
    """The first `count` rows whose prompts are short enough to be answered."""
    fitting = np.flatnonzero(sequences.prompt_lengths <= max_prompt_tokens)
    return [int(row) for row in fitting[:count]]


def imitation_prompts(sequences: Sequences, tokenizer: PreTrainedTokenizerBase, *, rows: list[int]) -> Prompts:
    """The prompts of these rows."""
    prompts = [sequences.tokens.row(row)[: sequences.prompt_lengths[row]] for row in rows]
    return Prompts(
        ids=tuple(f"demonstration-{row}" for row in rows),
        texts=tuple(tokenizer.decode(prompt, skip_special_tokens=True) for prompt in prompts),
        tokens=Ragged.from_rows(prompts, np.int32),
    )


def imitated_texts(sequences: Sequences, tokenizer: PreTrainedTokenizerBase, *, rows: list[int]) -> tuple[str, ...]:
    """The demonstrated answers of these rows."""
    answers = [sequences.tokens.row(row)[sequences.prompt_lengths[row] :] for row in rows]
    return tuple(tokenizer.decode(answer, skip_special_tokens=True) for answer in answers)
