"""Numbers that set a reward model's scale: its head's start and the normalisation of its scores."""

from __future__ import annotations

import math

from torch import Tensor


def head_init_std(hidden_size: int) -> float:
    """1 / sqrt(d + 1) (Stiennon 2020, p. 17, with the root the text lost; lm-human-preferences)."""
    return 1.0 / math.sqrt(hidden_size + 1)


def mean_shift(scores: Tensor) -> float:
    """What to subtract so that the mean of these scores is 0: bias only (N+, on reference answers)."""
    return float(scores.double().mean())


def gain_and_bias(scores: Tensor) -> tuple[float, float]:
    """gain = 1 / std, bias = -gain * mean: gain * r + bias has mean 0, biased std 1 on these scores. (Ziegler 2019)

    Constant scores only get the bias: gain 1.
    """
    mean = float(scores.double().mean())
    std = float(scores.double().std(correction=0))
    gain = 1.0 / std if std > 0.0 else 1.0
    return gain, -gain * mean
