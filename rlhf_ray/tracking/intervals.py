"""How sure a comparison is. Legend: P held-out prompts, S answers to each. Answers to one prompt are not independent:
they count once, as their mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval; the ends are None where one prompt alone says nothing about the spread."""

    value: float
    low: float | None
    high: float | None


def win_rate(scores: NDArray[np.float64], baseline: NDArray[np.float64]) -> Interval:
    """Share of paired answers [P, S] that score above the baseline's, ties 1/2, with Wilson's interval over P.

    Wilson's, because it keeps a width where every prompt is won, which a t interval and a bootstrap do not. It takes
    the variance to be p (1 - p), the largest that numbers in [0, 1] with mean p can have: ties, and means over the
    answers to a prompt, can only make it too wide.
    (Wilson 1927, "Probable inference, the law of succession, and statistical inference".)
    """
    wins = np.mean((np.sign(scores - baseline) + 1.0) / 2.0, axis=1)
    p, n = float(np.mean(wins)), len(wins)
    z = float(norm.ppf((1.0 + CONFIDENCE) / 2.0))
    centre = (p + z**2 / (2 * n)) / (1.0 + z**2 / n)
    half = z / (1.0 + z**2 / n) * math.sqrt(p * (1.0 - p) / n + z**2 / (4.0 * n**2))
    return Interval(value=p, low=max(0.0, centre - half), high=min(1.0, centre + half))


def paired_gain(scores: NDArray[np.float64], baseline: NDArray[np.float64]) -> Interval:
    """Mean of scores - baseline over paired answers [P, S], with the t interval over P."""
    gains = np.mean(scores - baseline, axis=1)
    mean, n = float(np.mean(gains)), len(gains)
    if n < 2:
        return Interval(value=mean, low=None, high=None)
    half = float(t.ppf((1.0 + CONFIDENCE) / 2.0, n - 1)) * float(np.std(gains, ddof=1)) / math.sqrt(n)
    return Interval(value=mean, low=mean - half, high=mean + half)
