"""Cutting token rows to a limit: always from the prompt's left, never from the answer's end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlhf_ray.types import Ragged, Sequences


def cut_left(ids: Sequence[int], *, max_tokens: int, bos_token_id: int | None) -> list[int]:
    """The last max_tokens ids; a BOS in front stays in front and counts."""
    return [ids[i] for i in kept_positions(ids, max_tokens=max_tokens, bos_token_id=bos_token_id)]


def kept_positions(ids: Sequence[int], *, max_tokens: int, bos_token_id: int | None) -> list[int]:
    """Where the ids that cut_left keeps stand."""
    count = len(ids)
    if count <= max_tokens:
        return list(range(count))
    head = [0] if bos_token_id is not None and ids[0] == bos_token_id else []
    return head + list(range(count - max_tokens + len(head), count))


def cut_prompts_left(sequences: Sequences, *, max_tokens: int, bos_token_id: int | None) -> tuple[Sequences, int]:
    """Rows of at most max_tokens ids, and how many were cut. Every prompt keeps at least one id.

    Precondition: no answer alone fills max_tokens.
    """
    lengths = sequences.tokens.lengths
    answer_lengths = lengths - sequences.prompt_lengths
    assert (answer_lengths < max_tokens).all(), "an answer leaves its prompt no room"
    if (lengths <= max_tokens).all():
        return sequences, 0
    prompts = [
        cut_left(row[:prompt_length].tolist(), max_tokens=max_tokens - answer_length, bos_token_id=bos_token_id)
        for row, prompt_length, answer_length in zip(
            sequences.tokens.rows(), sequences.prompt_lengths, answer_lengths, strict=True
        )
    ]
    rows = [
        np.concatenate([np.asarray(prompt, dtype=np.int32), row[prompt_length:]])
        for prompt, row, prompt_length in zip(prompts, sequences.tokens.rows(), sequences.prompt_lengths, strict=True)
    ]
    cut = Sequences(
        tokens=Ragged.from_rows(rows, np.int32),
        prompt_lengths=np.array([len(prompt) for prompt in prompts], dtype=np.int64),
    )
    return cut, int((lengths > max_tokens).sum())
