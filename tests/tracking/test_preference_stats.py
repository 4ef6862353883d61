import numpy as np
import pytest

from rlhf_ray.tracking.preference_stats import preference_stats, reference_stats
from rlhf_ray.types import Mean


def stats_of(labels, scores, *, group=2):
    return preference_stats(np.array(labels), np.array(scores), group=group, clear_gap=0.1)


def test_pairs_are_compared_within_their_group_and_ties_of_labels_are_none():
    stats = stats_of([1.0, 0.0, 0.5, 0.5, 0.2, 0.25], [2.0, 1.0, 9.0, 0.0, 3.0, 1.0])
    assert stats["reward_model/val_accuracy"] == Mean(1.0, 2)
    assert stats["reward_model/val_accuracy_clear"] == Mean(1.0, 1)
    assert stats["reward_model/num_val_pairs"].value == 2
    assert stats["reward_model/val_margin_mean"].value == pytest.approx((1.0 - 2.0) / 2)


def test_a_tie_of_scores_is_not_accurate():
    assert stats_of([1.0, 0.0], [2.0, 2.0])["reward_model/val_accuracy"].value == 0.0


def test_accuracy_is_told_by_the_difference_of_labels():
    stats = stats_of([1.0, 0.95, 1.0, 0.8, 1.0, 0.8, 2.0, 0.5], [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 3.0, 0.0])
    by_margin = {name.rpartition("/")[2]: stat for name, stat in stats.items() if "by_margin" in name}
    assert by_margin == {"0-0.1": Mean(1.0, 1), "0.1-0.3": Mean(1.0, 2), "1-inf": Mean(1.0, 1)}


def test_labels_of_one_difference_have_no_bins():
    assert not any("by_margin" in name for name in stats_of([1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]))


def test_without_pairs_everything_is_undefined():
    stats = stats_of([1.0, 1.0], [2.0, 1.0])
    assert stats["reward_model/val_accuracy"].value is None
    assert stats["reward_model/margin_std"].value is None


def test_scores_of_demonstrations():
    stats = reference_stats(np.array([1.0, 3.0]))
    assert stats["reward_model/reference_score"].value == 2.0
    assert stats["reward_model/reference_score_std"].value == 1.0
    assert reference_stats(np.array([]))["reward_model/reference_score"].value is None
