import numpy as np
import pytest
from scipy.stats import binomtest, ttest_1samp

from rlhf_ray.tracking.intervals import paired_gain, win_rate


def column(*values):
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def test_wins_count_one_ties_a_half_and_losses_nothing():
    assert win_rate(column(2, 1, 0, 5), column(1, 1, 1, 1)).value == 0.625  # win, tie, loss, win


def test_without_ties_the_interval_is_wilsons():
    scores = np.concatenate([np.ones(70), -np.ones(30)]).reshape(-1, 1)
    expected = binomtest(70, 100).proportion_ci(confidence_level=0.95, method="wilson")
    found = win_rate(scores, np.zeros_like(scores))
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)


def test_winning_everywhere_still_leaves_doubt():
    found = win_rate(np.ones((256, 2)), np.zeros((256, 2)))
    assert (found.value, found.high) == (1.0, pytest.approx(1.0))
    assert 0.98 < found.low < 0.99


def test_more_answers_to_the_same_prompts_do_not_pretend_to_be_more_prompts():
    one = np.sign(np.random.default_rng(0).normal(0.3, 1.0, size=(64, 1)))
    assert win_rate(np.repeat(one, 8, axis=1), np.zeros((64, 8))) == win_rate(one, np.zeros((64, 1)))


def test_the_interval_of_a_win_rate_covers_the_truth_at_least_nine_times_in_ten():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        outcomes = rng.choice([1.0, 0.0, -1.0], p=[0.6, 0.2, 0.2], size=(100, 1))  # true rate 0.7
        found = win_rate(outcomes, np.zeros((100, 1)))
        covered += found.low <= 0.7 <= found.high
    assert covered / 300 >= 0.95


def test_a_paired_gain_has_the_t_interval_over_prompts():
    scores = np.array([[0.9, 0.7], [0.5, 0.5], [0.2, 0.8]])
    baseline = np.array([[0.1, 0.1], [0.3, 0.1], [0.4, 0.0]])
    gains = [0.7, 0.3, 0.3]  # prompt means
    expected = ttest_1samp(gains, 0.0).confidence_interval(0.95)
    found = paired_gain(scores, baseline)
    assert found.value == pytest.approx(1.3 / 3)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_equal_gains_have_an_interval_of_no_width_and_one_prompt_has_none():
    assert paired_gain(column(3, 4), column(1, 2)).low == 2.0
    lone = paired_gain(column(3), column(1))
    assert (lone.value, lone.low, lone.high) == (2.0, None, None)
