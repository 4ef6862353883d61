"""Critic-free advantages. Scores of one prompt's samples stand in one row: [groups, samples] -> [groups, samples].

Every group estimator has that form, so that another is one more function (`GroupAdvantage`); numbers it needs are bound
beforehand with functools.partial. A group whose scores are all equal gives exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlhf_ray.algorithms.gae import gae
from rlhf_ray.algorithms.masking import masked_whiten

GroupAdvantage = Callable[[Tensor], Tensor]


def dr_grpo(scores: Tensor) -> Tensor:
    """r - mean(group). (Liu et al. 2025)"""
    constant = (scores == scores[:, :1]).all(dim=1, keepdim=True)
    # the mean of equal numbers need not equal them in floating point
    return torch.where(constant, torch.zeros_like(scores), scores - scores.mean(dim=1, keepdim=True))


def grpo(scores: Tensor, *, eps: float = 1e-6, unbiased: bool = True) -> Tensor:
    """(r - mean(group)) / (std(group) + eps). (Shao et al. 2024; std as in torch: ddof 1)"""
    deviations = dr_grpo(scores)
    num_free = max(scores.shape[1] - int(unbiased), 1)
    std = ((deviations**2).sum(dim=1, keepdim=True) / num_free).sqrt()
    return deviations / (std + eps)


def rloo(scores: Tensor) -> Tensor:
    """r - mean(the group's other samples) = n / (n - 1) * (r - mean). (Ahmadian et al. 2024) Needs n >= 2."""
    num_samples = scores.shape[1]
    assert num_samples >= 2, "leave-one-out needs at least 2 samples a prompt"
    return dr_grpo(scores) * (num_samples / (num_samples - 1))


def remax(scores: Tensor, *, greedy_scores: Tensor) -> Tensor:
    """r - r(greedy answer to the same prompt); greedy_scores [groups]. (Li et al. 2023)"""
    return scores - greedy_scores.unsqueeze(1)


def over_tokens(advantages: Tensor, response_mask: Tensor) -> Tensor:
    """One number an answer onto all its tokens: [groups, samples] -> [groups * samples, T]; 0 outside the mask."""
    return advantages.reshape(-1, 1) * response_mask.to(advantages.dtype)


def reinforce_plus_plus_baseline(scores: Tensor, response_mask: Tensor, *, unbiased: bool = False) -> Tensor:
    """r - mean(group) on every token, then whitened over the batch's tokens: [B, T]. (Hu 2025)"""
    tokens = over_tokens(dr_grpo(scores), response_mask)
    return masked_whiten(tokens, response_mask, shift_mean=True, unbiased=unbiased)


def reinforce_plus_plus(
    rewards: Tensor, response_mask: Tensor, *, gamma: float, unbiased: bool = False
) -> tuple[Tensor, Tensor]:
    """Rewards to go R_t = sum_k gamma^k r_{t+k} and R whitened over the batch's tokens: advantages, returns [B, T]."""
    # rewards to go are GAE without a critic
    returns, _ = gae(rewards, torch.zeros_like(rewards), response_mask, gamma=gamma, lam=1.0)
    return masked_whiten(returns, response_mask, shift_mean=True, unbiased=unbiased), returns
