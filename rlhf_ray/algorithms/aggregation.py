"""How token terms become one loss, as weights: loss = sum(weight * term) / sum of the step's row counts.

Written so, every form is a sum that micro-batches and ranks can split.
Legend: B rows, T response slots, n_i a row's trained tokens.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor


class LossForm(StrEnum):
    """How a step's token terms are averaged."""

    TOKEN_MEAN = "token_mean"  # sum L / sum n_i (PPO, DAPO)
    SEQUENCE_MEAN_TOKEN_MEAN = "sequence_mean_token_mean"  # mean_i (sum_t L / n_i) (GRPO)
    SEQUENCE_MEAN_TOKEN_SUM = "sequence_mean_token_sum"  # mean_i (sum_t L)
    TOKEN_SUM_NORM = "token_sum_norm"  # sum L / constant length (Dr.GRPO): a sum over sequences, not their mean


def aggregation_weights(mask: Tensor, *, form: LossForm, norm_length: int) -> tuple[Tensor, Tensor]:
    """mask [B, T] -> token weights [B, T] and row counts [B], both float64. Rows without trained tokens never count.

    `norm_length` is the constant length of TOKEN_SUM_NORM. There, a step over some of the rows given estimates the
    sum over all of them, so that its size does not depend on the number of minibatches.
    """
    kept = mask.to(torch.float64)
    lengths = kept.sum(dim=1)
    rows = (lengths > 0).to(torch.float64)
    match form:
        case LossForm.TOKEN_MEAN:
            return kept, lengths
        case LossForm.SEQUENCE_MEAN_TOKEN_MEAN:
            return kept / lengths.clamp(min=1).unsqueeze(1), rows
        case LossForm.SEQUENCE_MEAN_TOKEN_SUM:
            return kept, rows
        case LossForm.TOKEN_SUM_NORM:
            return kept / norm_length, rows / rows.sum().clamp(min=1)
