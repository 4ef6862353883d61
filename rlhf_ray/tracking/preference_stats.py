"""How well scores order answers: accuracy by margin, spread and calibration of a reward model.

Legend: G groups of K answers to one prompt, P pairs whose labels differ.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rlhf_ray.algorithms.statistics import expected_calibration_error
from rlhf_ray.types import Last, Mean, Stats, Sum

NUM_BINS = 10
GAP_EDGES = (0.0, 0.1, 0.3, 0.6, 1.0, float("inf"))  # of label differences


def preference_stats(
    labels: NDArray[np.floating], scores: NDArray[np.floating], *, group: int, clear_gap: float
) -> Stats:
    """Stats of the pairs within groups: chosen is the answer with the larger label.

    accuracy counts score(chosen) > score(rejected) strictly, over all pairs and over those whose labels differ by at
    least `clear_gap`; loss is -log sigmoid of the margin; calibration compares sigmoid(margin) with being right.
    The ceiling is the 99th percentile of the scores of answers preferred to every other one of their group.
    """
    gaps, margins = pair_margins(labels, scores, group=group)
    clear = gaps >= clear_gap
    right = margins > 0
    confident = 1 / (1 + np.exp(-np.abs(margins)))
    best = scores.reshape(-1, group)[np.arange(len(scores) // group), labels.reshape(-1, group).argmax(axis=1)]
    calibration = expected_calibration_error(torch.from_numpy(confident), torch.from_numpy(right), num_bins=NUM_BINS)
    return {
        "reward_model/val_loss": _mean(np.logaddexp(0, -margins)),
        "reward_model/val_accuracy": _mean(right),
        "reward_model/val_accuracy_clear": _mean(right[clear]),
        "reward_model/val_margin_mean": _mean(margins),
        "reward_model/margin_std": Last(float(margins.std()) if len(margins) else None),
        "reward_model/calibration_error": Last(calibration),
        "reward_model/score_ceiling": Last(float(np.quantile(best, 0.99)) if len(best) else None),
        "reward_model/num_val_pairs": Sum(len(margins)),
        **accuracy_by_margin(gaps, right),
    }


def accuracy_by_margin(gaps: NDArray[np.float64], right: NDArray[np.bool_]) -> Stats:
    """Accuracy of the pairs [P] whose labels differ by so much; the bins that hold pairs, where they are several."""
    bins = np.digitize(gaps, GAP_EDGES[1:-1])
    found = [int(index) for index in np.unique(bins)]
    if len(found) < 2:
        return {}
    return {
        f"reward_model/val_accuracy_by_margin/{GAP_EDGES[index]:g}-{GAP_EDGES[index + 1]:g}": _mean(
            right[bins == index]
        )
        for index in found
    }


def reference_stats(scores: NDArray[np.float64]) -> Stats:
    """Scores of demonstrated answers: where the reward model sees what the policy is to reach."""
    return {
        "reward_model/reference_score": _mean(scores),
        "reward_model/reference_score_std": Last(float(scores.std()) if len(scores) else None),
    }


def pair_margins(
    labels: NDArray[np.floating], scores: NDArray[np.floating], *, group: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Label gap (> 0) and score margin of every pair of a group whose labels differ, both [P]."""
    left, right = np.triu_indices(group, k=1)
    grouped_labels = labels.astype(np.float64).reshape(-1, group)
    grouped_scores = scores.astype(np.float64).reshape(-1, group)
    gaps = (grouped_labels[:, left] - grouped_labels[:, right]).reshape(-1)
    margins = (grouped_scores[:, left] - grouped_scores[:, right]).reshape(-1)
    differ = gaps != 0
    return np.abs(gaps[differ]), (np.sign(gaps) * margins)[differ]


def _mean(values: NDArray[np.generic]) -> Mean:
    return Mean(float(np.sum(values, dtype=np.float64)), len(values))
