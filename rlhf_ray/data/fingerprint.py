"""A digest over all rows of a run: two runs with the same one have seen the same token ids in the same order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.on_disk import Texts
from rlhf_ray.data.prompt_table import PromptTable
from rlhf_ray.types import Ragged, TrainBatch

CHUNK = 1 << 20  # numbers in memory at once


def fingerprint(prompts: Sequence[PromptTable], batches: Sequence[TrainBatch[Any]]) -> str:
    """Over prompt ids, a line each, and token rows."""
    digest = hashlib.blake2b(digest_size=16)
    for table in prompts:
        for text in _lines(table.ids):
            digest.update(text.encode())
    tokens: list[Ragged] = [*(table.tokens for table in prompts), *(batch.sequences.tokens for batch in batches)]
    for rows in tokens:
        for numbers in (rows.values, rows.offsets):
            for chunk in _chunks(numbers):
                digest.update(chunk.tobytes())
    return digest.hexdigest()


def _lines(texts: Texts) -> Iterator[str]:
    """What "\\n".join(texts) is made of."""
    before = ""
    for piece in texts.pieces():
        yield before + "\n".join(piece)
        before = "\n"


def _chunks(numbers: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    return (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))
