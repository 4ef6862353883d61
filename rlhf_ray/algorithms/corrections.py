"""Importance corrections for answers drawn by a generator that is not exactly the learner's old policy.

w_t = pi_old(token) / pi_rollout(token), both already fixed: the weights multiply the loss and carry no gradient.
Legend: B rows, T response slots. Log ratios are held within +-20.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from rlhf_ray.algorithms.kl import exp_log_ratio, k3_from_log_ratio
from rlhf_ray.algorithms.masking import masked_mean, masked_sum


class CorrectionKind(StrEnum):
    """Named after the function that computes it."""

    TIS_TOKEN = "tis_token"
    TIS_SEQUENCE = "tis_sequence"
    ICEPOP = "icepop"
    SEQUENCE_MASK = "sequence_mask"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCorrection:
    """Which correction, and its bounds; the truncating kinds (tis_*) use `high` alone."""

    kind: CorrectionKind
    low: float
    high: float


def correction_weights(log_ratio: Tensor, mask: Tensor, *, correction: RolloutCorrection) -> Tensor:
    """Weights [B, T] for log_ratio = old - rollout log-probs [B, T]; 0 outside the mask."""
    kept = mask.to(log_ratio.dtype)
    match correction.kind:
        case CorrectionKind.TIS_TOKEN:
            return tis_token(log_ratio, mask, cap=correction.high)
        case CorrectionKind.TIS_SEQUENCE:
            return tis_sequence(log_ratio, mask, cap=correction.high).unsqueeze(1) * kept
        case CorrectionKind.ICEPOP:
            return icepop(log_ratio, mask, low=correction.low, high=correction.high)
        case CorrectionKind.SEQUENCE_MASK:
            return sequence_mask(log_ratio, mask, low=correction.low, high=correction.high).unsqueeze(1) * kept


def token_weights(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """w_t, 0 outside the mask. [B, T]"""
    return torch.where(mask.bool(), exp_log_ratio(log_ratio), torch.zeros_like(log_ratio))


def tis_token(log_ratio: Tensor, mask: Tensor, *, cap: float) -> Tensor:
    """min(w_t, cap). [B, T] (Yao et al. 2025)"""
    return token_weights(log_ratio, mask).clamp(max=cap)


def icepop(log_ratio: Tensor, mask: Tensor, *, low: float, high: float) -> Tensor:
    """w_t where low <= w_t <= high, else 0: the token is left out. [B, T]"""
    weights = token_weights(log_ratio, mask)
    return torch.where((weights >= low) & (weights <= high), weights, torch.zeros_like(weights))


def sequence_weights(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The product of a row's w_t. [B]"""
    return exp_log_ratio(masked_sum(log_ratio, mask, dim=1))


def tis_sequence(log_ratio: Tensor, mask: Tensor, *, cap: float) -> Tensor:
    """min(product of a row's w_t, cap). [B]"""
    return sequence_weights(log_ratio, mask).clamp(max=cap)


def sequence_geometric_mean(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """(product of a row's w_t)^(1 / tokens); 1 for a row without tokens. [B]"""
    return exp_log_ratio(masked_sum(log_ratio, mask, dim=1) / mask.sum(dim=1).clamp(min=1))


def sequence_mask(log_ratio: Tensor, mask: Tensor, *, low: float, high: float) -> Tensor:
    """1 for rows whose geometric mean lies within [low, high], else 0. [B]"""
    means = sequence_geometric_mean(log_ratio, mask)
    return ((means >= low) & (means <= high)).to(log_ratio.dtype)


def mismatch_kl(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens of w - 1 - log w: KL(rollout || old) from rollout samples, never negative. Scalar."""
    return masked_mean(k3_from_log_ratio(log_ratio), mask)


def effective_sample_share(log_ratio: Tensor, mask: Tensor, *, cap: float) -> Tensor:
    """mean(w)^2 / mean(w^2) over tokens, w held within [1 / cap, cap]: 1 when all weigh the same. Scalar."""
    weights = token_weights(log_ratio, mask).clamp(1.0 / cap, cap)
    return masked_mean(weights, mask) ** 2 / masked_mean(weights**2, mask)
