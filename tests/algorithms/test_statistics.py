import numpy as np
import pytest
import torch

from rlhf_ray.algorithms.experience_stats import even_edges
from rlhf_ray.algorithms.reward_scale import gain_and_bias
from rlhf_ray.algorithms.statistics import (
    expected_calibration_error,
    explained_variance,
    histogram,
    pearson,
    quantiles,
)
from rlhf_ray.types import Histogram


@pytest.mark.parametrize("returns", [[], [2.0], [0.1, 0.1, 0.1]])
def test_explained_variance_of_constant_returns_is_undefined(returns: list[float]) -> None:
    assert explained_variance(torch.zeros(len(returns)), torch.tensor(returns)) is None


def test_correlation_by_hand() -> None:
    assert pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5, 7, 9])) == pytest.approx(1.0)
    assert pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 1.0])) == pytest.approx(0.0)
    assert pearson(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])) == pytest.approx(-1.0)


@pytest.mark.parametrize("constant", [[0.1, 0.1, 0.1], [], [4.0]])
def test_correlation_with_a_constant_is_undefined(constant: list[float]) -> None:
    other = torch.arange(len(constant), dtype=torch.float32)
    assert pearson(torch.tensor(constant), other) is None
    assert pearson(other, torch.tensor(constant)) is None


def test_a_histogram_counts_all_but_nan_and_adds_up() -> None:
    values = torch.tensor([-9.0, 0.0, 0.5, 1.0, 1.5, 2.0, float("inf"), float("nan")])
    counted = histogram(values, (0.0, 1.0, 2.0))
    assert counted == Histogram((3, 4), (0.0, 1.0, 2.0))
    assert counted.merge(counted).counts == (6, 8)
    with pytest.raises(AssertionError, match="other bins"):
        counted.merge(Histogram((1,), (0.0, 2.0)))


def test_edges_span_the_values_and_survive_what_has_no_span() -> None:
    assert even_edges(0.0, 30.0) == list(range(31))
    assert even_edges(2.0, 2.0) == [1.5, 2.5]
    for low, high in ((None, None), (float("nan"), 1.0), (float("-inf"), 1.0)):
        assert even_edges(low, high) == [-0.5, 0.5]


def test_quantiles_interpolate_as_numpy_does() -> None:
    values = [3.0, -1.0, 7.0, 0.5, 2.25]
    probabilities = (0.0, 0.05, 0.33, 0.5, 0.95, 1.0)
    assert quantiles(torch.tensor(values), probabilities) == pytest.approx(np.quantile(values, probabilities).tolist())
    assert quantiles(torch.zeros(0), (0.5, 0.9)) == [None, None]


def test_calibration_error_by_hand() -> None:
    # bin [0.5, 1]: 3 of 4 right at confidence 0.75; bin [0, 0.5): 1 of 1 right at confidence 0.25
    confidences = torch.tensor([0.75, 0.75, 0.75, 0.75, 0.25])
    correct = torch.tensor([True, True, True, False, True])
    assert expected_calibration_error(confidences, correct, num_bins=2) == pytest.approx(0.75 / 5)
    assert expected_calibration_error(torch.ones(3), torch.ones(3, dtype=torch.bool), num_bins=10) == 0.0
    assert expected_calibration_error(torch.zeros(0), torch.zeros(0), num_bins=10) is None


def test_constant_scores_are_shifted_but_not_scaled() -> None:
    assert gain_and_bias(torch.tensor([2.0, 2.0])) == (1.0, -2.0)
