"""Answers to the same prompt, side by side, with a label each: compared all with all, every answer is read once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.types import PreferenceTargets, Ragged, Sequences, TrainBatch


def group_batch(
    sequences: Sequences, labels: NDArray[np.float64], *, group: int
) -> TrainBatch[PreferenceTargets[Ragged]]:
    """Rows in groups of `group` neighbours. A row counts once for every pair in which it is the preferred one."""
    assert len(labels) % group == 0, "every prompt has the same number of answers"
    grouped = labels.astype(np.float32).reshape(-1, group)  # as the loss compares them
    wins = (grouped[:, :, None] > grouped[:, None, :]).sum(axis=2)
    return TrainBatch(
        sequences=sequences,
        targets=PreferenceTargets(labels=one_a_row(labels, dtype=np.float32)),
        row_counts=wins.reshape(-1).astype(np.float64),
        rows_per_group=group,
    )


def one_a_row(values: NDArray[np.generic], *, dtype: type) -> Ragged:
    """One number a row, as a ragged array."""
    return Ragged(values=np.asarray(values, dtype=dtype), offsets=np.arange(len(values) + 1, dtype=np.int64))
