"""Plain statistics that say "undefined" (None) instead of dividing by zero. Sums run in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlhf_ray.types import Histogram


def explained_variance(values: Tensor, returns: Tensor) -> float | None:
    """1 - Var(R - V) / Var(R); None when Var(R) is 0. Blind to a constant offset of V."""
    if returns.numel() == 0:
        return None
    targets = returns.double()
    total = float(targets.var(correction=0))
    if float(targets.min()) == float(targets.max()) or total == 0.0:
        return None
    return 1.0 - float((targets - values.double()).var(correction=0)) / total


def pearson(left: Tensor, right: Tensor) -> float | None:
    """Correlation of two [N]; None when either is constant."""
    if left.numel() == 0 or bool((left == left[0]).all()) or bool((right == right[0]).all()):
        return None
    a, b = left.double() - left.double().mean(), right.double() - right.double().mean()
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / scale if scale > 0.0 else None


def quantiles(values: Tensor, probabilities: Sequence[float]) -> list[float | None]:
    """Linearly interpolated quantiles, each None without values. (torch.quantile takes no more than 2^24 values.)"""
    if values.numel() == 0:
        return [None for _ in probabilities]
    ordered = values.detach().double().flatten().sort().values
    places = torch.tensor(list(probabilities), dtype=torch.float64, device=ordered.device) * (len(ordered) - 1)
    below, above = ordered[places.floor().long()], ordered[places.ceil().long()]
    interpolated: list[float | None] = (below + (above - below) * (places - places.floor())).tolist()
    return interpolated


def histogram(values: Tensor, edges: Sequence[float]) -> Histogram:
    """Counts between ascending edges; values outside them fall into the outer bins, those that are NaN into none."""
    inner = torch.tensor(edges[1:-1], dtype=torch.float64, device=values.device)
    plain = values.detach().double().flatten()
    bins = torch.bucketize(plain[~plain.isnan()], inner, right=True)
    counts = torch.bincount(bins, minlength=len(edges) - 1)
    return Histogram(tuple(counts.tolist()), tuple(edges))


def expected_calibration_error(confidences: Tensor, correct: Tensor, *, num_bins: int) -> float | None:
    """sum over equal-width bins of share * |accuracy - mean confidence|; None without data. (Guo et al. 2017)

    confidences [N] in [0, 1]; correct [N] bool.
    """
    if confidences.numel() == 0:
        return None
    bins = (confidences.double() * num_bins).long().clamp(0, num_bins - 1)
    misses = correct.double() - confidences.double()
    gaps = torch.zeros(num_bins, dtype=torch.float64, device=bins.device).index_add_(0, bins, misses)
    return float(gaps.abs().sum()) / confidences.numel()
