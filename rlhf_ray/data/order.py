"""Seeded data order, and splitting rows over workers by expected load with a way back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def epoch_order(num_rows: int, *, seed: int, epoch: int) -> Rows:
    """The order in which an epoch visits the rows: a permutation that depends on (seed, epoch) alone."""
    bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=(epoch,)))
    return np.random.Generator(bits).permutation(num_rows).astype(np.int64)


def stream_rows(num_rows: int, *, seed: int, start: int, count: int) -> Rows:
    """Rows start .. start + count of the endless stream of epochs.

    Always `count` rows; every aligned run of `num_rows` holds each row once. Iteration k takes start = k * batch.
    """
    assert num_rows > 0, "a stream needs rows"
    first, last = start // num_rows, (start + max(count, 1) - 1) // num_rows
    epochs = [epoch_order(num_rows, seed=seed, epoch=epoch) for epoch in range(first, last + 1)]
    offset = start - first * num_rows
    return np.concatenate(epochs)[offset : offset + count]


def split_rows(num_rows: int, *, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and held-out row numbers, each ascending; at least one row on either side where there are two."""
    num_held_out = min(max(1, round(num_rows * share)), max(num_rows - 1, 0))
    order = epoch_order(num_rows, seed=seed, epoch=0)
    return np.sort(order[num_held_out:]), np.sort(order[:num_held_out])


def split_by_load(prompt_lengths: NDArray[np.int64], *, max_new_tokens: int, num_parts: int) -> list[Rows]:
    """Every row in exactly one part, the parts' sums of prompt + max_new_tokens near equal; rows ascend within a part.

    Longest first onto the least loaded part (Graham 1969): no part exceeds 4/3 of the optimum. Parts may be empty
    where there are fewer rows than parts.
    """
    assert num_parts > 0, "a split needs parts"
    loads = np.asarray(prompt_lengths, dtype=np.int64) + max_new_tokens
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    least = [(0, part) for part in range(num_parts)]
    for row in np.argsort(-loads, kind="stable"):
        load, part = heapq.heappop(least)
        parts[part].append(int(row))
        heapq.heappush(least, (load + int(loads[row]), part))
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def group_rows(groups: Rows, *, group: int) -> Rows:
    """The rows of these groups, of `group` neighbouring rows each, such as the answers to one prompt."""
    return (groups[:, None] * group + np.arange(group)).reshape(-1)


def original_order(parts: Sequence[Rows]) -> Rows:
    """Indices that put the concatenated results of the parts back in order: concat(results)[original_order(parts)]."""
    return np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]), kind="stable").astype(np.int64)
