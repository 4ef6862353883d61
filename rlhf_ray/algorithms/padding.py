"""Between ragged rows and padded tensors. Legend: B rows, T slots. Padded numbers are float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlhf_ray.algorithms.masking import mask_from_lengths
from rlhf_ray.types import FinishReason, Ragged, Rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedRollouts:
    """The numbers of rollouts as tensors, 0 outside the mask."""

    mask: Tensor  # [B, T] True = response token
    finished: Tensor  # [B] True = ended by itself
    scores: Tensor  # [B] before any end-of-answer rule
    old_logprobs: Tensor  # [B, T]
    ref_logprobs: Tensor  # [B, T]
    rollout_logprobs: Tensor  # [B, T] the generator's
    values: Tensor  # [B, T]
    end_values: Tensor  # [B]


def pad_rollouts(rollouts: Rollouts, *, window: int) -> PaddedRollouts:
    """T is the longest answer and one free slot, but no more than the window (the most tokens an answer can have)."""
    completions = rollouts.completions
    lengths = completions.tokens.lengths
    mask = mask_from_lengths(torch.from_numpy(lengths), width=min(int(lengths.max(initial=0)) + 1, window))
    finished = [reason is FinishReason.STOP for reason in completions.finish_reasons]
    return PaddedRollouts(
        mask=mask,
        finished=torch.tensor(finished, dtype=torch.bool),
        scores=torch.from_numpy(rollouts.rewards.scores.astype(np.float64)),
        old_logprobs=pad(rollouts.logprobs, mask),
        ref_logprobs=pad(rollouts.ref_logprobs, mask),
        rollout_logprobs=pad(completions.logprobs, mask),
        values=pad(rollouts.values, mask),
        end_values=torch.from_numpy(rollouts.end_values.astype(np.float64)),
    )


def pad(rows: Ragged, mask: Tensor) -> Tensor:
    """Rows laid into the True slots of mask [B, T], 0 elsewhere; a copy. Both must have the same row lengths."""
    assert np.array_equal(rows.lengths, mask.sum(dim=1).numpy()), "per-token numbers must align with the tokens"
    padded = torch.zeros(mask.shape, dtype=torch.float64)
    padded[mask] = torch.from_numpy(rows.values.astype(np.float64))
    return padded


def unpad(padded: Tensor, mask: Tensor) -> Ragged:
    """The True slots of mask [B, T], row after row; float32."""
    offsets = np.zeros(len(mask) + 1, dtype=np.int64)
    np.cumsum(mask.sum(dim=1).numpy(), out=offsets[1:])
    return Ragged(values=padded[mask].numpy().astype(np.float32), offsets=offsets)
