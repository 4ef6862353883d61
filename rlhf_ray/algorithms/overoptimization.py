"""Scaling laws of reward-model over-optimisation (Gao et al. 2022, 2210.10760), d = sqrt(KL(policy || start))."""

from __future__ import annotations

import math


def rl_gold_reward(distance: float, *, alpha: float, beta: float) -> float:
    """R = d (alpha - beta ln d); 0 at d = 0 and at d = exp(alpha / beta)."""
    return distance * (alpha - beta * math.log(distance)) if distance > 0.0 else 0.0


def rl_peak(*, alpha: float, beta: float) -> tuple[float, float]:
    """(d*, R*) of the RL form: d* = exp(alpha / beta - 1), R* = beta d*."""
    distance = math.exp(alpha / beta - 1.0)
    return distance, beta * distance


def best_of_n_gold_reward(distance: float, *, alpha: float, beta: float) -> float:
    """R = d (alpha - beta d)."""
    return distance * (alpha - beta * distance)


def best_of_n_peak(*, alpha: float, beta: float) -> tuple[float, float]:
    """(d*, R*) of the best-of-n form: d* = alpha / (2 beta), R* = alpha^2 / (4 beta)."""
    return alpha / (2.0 * beta), alpha**2 / (4.0 * beta)


def best_of_n_kl(n: int) -> float:
    """KL(best of n || policy) = ln n - (n - 1) / n, in nats."""
    return math.log(n) - (n - 1) / n
