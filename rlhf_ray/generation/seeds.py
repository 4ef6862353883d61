"""Sampling seeds: one per answer, the same in every process and however answers are batched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SEED_MASK = (1 << 63) - 1  # vLLM and torch take signed 64-bit seeds


def derive_seeds(prompt_ids: Sequence[str], *, seed: int, step: int, num_samples: int) -> NDArray[np.uint64]:
    """blake2b(seed, step, prompt id, sample) to 63 bits, [B * num_samples], the samples of a prompt side by side.

    An id that comes k times in the batch counts its samples on: 0..n-1, n..2n-1, so no two answers share a seed.
    """
    seen: Counter[str] = Counter()
    seeds = np.empty(len(prompt_ids) * num_samples, dtype=np.uint64)
    for row, prompt_id in enumerate(prompt_ids):
        for sample in range(num_samples):
            seeds[row * num_samples + sample] = _seed(seed, step, prompt_id, seen[prompt_id] + sample)
        seen[prompt_id] += num_samples
    return seeds


def _seed(seed: int, step: int, prompt_id: str, sample: int) -> int:
    # the id comes last: what stands before it holds no separator, so no two quadruples write the same bytes
    text = f"{seed}/{step}/{sample}/{prompt_id}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") & SEED_MASK
