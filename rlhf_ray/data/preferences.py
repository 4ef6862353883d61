"""Preferences between answers to the same prompt: pairs by score, groups to train on, the held-out split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.types import PreferenceTargets, Ragged, Sequences, TrainBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Row numbers of answers: chosen[i] scored gap[i] more than rejected[i]."""

    chosen_rows: NDArray[np.int64]  # [P]
    rejected_rows: NDArray[np.int64]  # [P]
    gold_gap: NDArray[np.float64]  # [P], > 0


def preference_pairs(gold: NDArray[np.float64], *, num_samples: int) -> Pairs:
    """All num_samples * (num_samples - 1) / 2 pairs of one prompt's answers whose scores differ, prompt by prompt.

    `gold` has one score per answer, the answers of one prompt side by side.
    """
    assert len(gold) % num_samples == 0, "every prompt has the same number of answers"
    starts = np.arange(0, len(gold), num_samples, dtype=np.int64)[:, None]
    within = np.array(list(combinations(range(num_samples), 2)), dtype=np.int64).reshape(-1, 2)
    first = (starts + within[None, :, 0]).reshape(-1)
    second = (starts + within[None, :, 1]).reshape(-1)
    gap = gold[first] - gold[second]
    differ = gap != 0
    return Pairs(
        chosen_rows=np.where(gap > 0, first, second)[differ],
        rejected_rows=np.where(gap > 0, second, first)[differ],
        gold_gap=np.abs(gap)[differ],
    )


def take_pairs(pairs: Pairs, wanted: NDArray[np.bool_]) -> Pairs:
    """The pairs marked True."""
    return Pairs(
        chosen_rows=pairs.chosen_rows[wanted],
        rejected_rows=pairs.rejected_rows[wanted],
        gold_gap=pairs.gold_gap[wanted],
    )


def held_out_mask(prompts: Sequence[str], *, num_held_out: int, seed: int) -> NDArray[np.bool_]:
    """True for the rows held out: whole prompts, so that equal texts never stand on both sides.

    Prompts are drawn until at least `num_held_out` rows are out.
    """
    distinct = list(dict.fromkeys(prompts))
    Random(seed).shuffle(distinct)
    rows_of: dict[str, list[int]] = {text: [] for text in distinct}
    for row, text in enumerate(prompts):
        rows_of[text].append(row)
    mask = np.zeros(len(prompts), dtype=np.bool_)
    for text in distinct:
        if mask.sum() >= num_held_out:
            break
        mask[rows_of[text]] = True
    return mask


def split_pairs(pairs: Pairs, *, held_out: NDArray[np.bool_]) -> tuple[Pairs, Pairs]:
    """Training and held-out pairs; `held_out` has one entry per answer row, equal within a prompt."""
    out = held_out[pairs.chosen_rows]
    return take_pairs(pairs, ~out), take_pairs(pairs, out)


def preference_batch(
    sequences: Sequences, *, labels: NDArray[np.float64], rows_per_group: int
) -> TrainBatch[PreferenceTargets[Ragged]]:
    """Groups of neighbouring answers to one prompt, compared all with all; groups without a comparison are left out.

    row_counts[i] = number of answers in i's group with a smaller label: the pairs in which i is the chosen one.
    Labels are compared as float32, the precision in which they travel.
    """
    assert len(labels) % rows_per_group == 0, "every group has the same number of answers"
    groups = labels.astype(np.float32).reshape(-1, rows_per_group)
    chosen_in = (groups[:, :, None] > groups[:, None, :]).sum(axis=2)
    compared = chosen_in.sum(axis=1) > 0
    rows = np.flatnonzero(np.repeat(compared, rows_per_group))
    return TrainBatch(
        sequences=Sequences(tokens=sequences.tokens.take(rows), prompt_lengths=sequences.prompt_lengths[rows]),
        targets=PreferenceTargets(labels=Ragged.from_rows(groups[compared].reshape(-1, 1), np.float32)),
        row_counts=chosen_in[compared].reshape(-1).astype(np.float64),
        rows_per_group=rows_per_group,
    )
