"""Estimators of KL(policy || reference) from sampled tokens, and the adaptive coefficient."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0  # exp beyond it is a broken token, not information; keeps float32 finite


class KlEstimator(StrEnum):
    """See `token_kl`."""

    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


def exp_log_ratio(log_ratio: Tensor) -> Tensor:
    """exp(log ratio), the log ratio held within +-20 first."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def token_kl(logprobs: Tensor, ref_logprobs: Tensor, *, estimator: KlEstimator) -> Tensor:
    """Per-token estimate for tokens drawn from the policy, r = ref / policy (Schulman, "Approximating KL").

    k1 = -log r: unbiased, may be negative. k2 = (log r)^2 / 2: biased, its gradient is the KL's.
    k3 = r - 1 - log r: unbiased, never negative.
    """
    log_ratio = ref_logprobs - logprobs
    match estimator:
        case KlEstimator.K1:
            return -log_ratio
        case KlEstimator.K2:
            return log_ratio**2 / 2
        case KlEstimator.K3:
            return k3_from_log_ratio(log_ratio)


def k3_from_log_ratio(log_ratio: Tensor) -> Tensor:
    """exp(x) - 1 - x, never below 0, exact to rounding near x = 0."""
    bounded = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    # a device's expm1 may be off by one unit in the last place; the estimator's sign is part of its contract
    return (torch.expm1(bounded) - log_ratio).clamp(min=0.0)


def adapted_kl_coef(coef: float, *, sequence_kl: float, target: float, horizon: float, num_episodes: int) -> float:
    """coef * (1 + clip(KL / target - 1, -0.2, 0.2) * episodes / horizon) (Ziegler et al. 2019).

    `sequence_kl` and `target` are sums over an answer's tokens, in nats. Fed a per-token mean, the coefficient
    only decays.
    """
    error = min(max(sequence_kl / target - 1.0, -0.2), 0.2)
    return coef * (1.0 + error * num_episodes / horizon)
