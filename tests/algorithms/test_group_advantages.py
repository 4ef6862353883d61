from functools import partial

import pytest
import torch

from rlhf_ray.algorithms.group_advantages import GroupAdvantage, dr_grpo, grpo, over_tokens, remax, rloo

ESTIMATORS = [dr_grpo, grpo, partial(grpo, unbiased=False), rloo]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("score", [0.1, 1.0, -1e6, 1 / 3])
def test_constant_group_gives_exactly_zero(estimator: GroupAdvantage, score: float) -> None:
    # the mean of three times 0.1 is not 0.1 in floating point
    assert estimator(torch.full((2, 3), score)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_order_of_samples_and_prompts_does_not_matter(estimator: GroupAdvantage) -> None:
    scores = torch.tensor([[1.0, 0.0, 0.5], [0.2, 0.9, 0.4]], dtype=torch.float64)
    torch.testing.assert_close(estimator(scores.flip(0, 1)), estimator(scores).flip(0, 1), rtol=0, atol=1e-12)


def test_one_sample_a_prompt_has_no_group_advantage_and_no_leave_one_out() -> None:
    assert grpo(torch.tensor([[2.0], [3.0]])).tolist() == [[0.0], [0.0]]
    with pytest.raises(AssertionError, match="at least 2 samples"):
        rloo(torch.tensor([[2.0]]))


def test_leave_one_out_by_hand() -> None:
    # less the mean of the other two: 1, 1.5 and 0.5
    assert rloo(torch.tensor([[1.0, 0.0, 2.0]])).tolist() == [[0.0, -1.5, 1.5]]


def test_remax_compares_with_the_greedy_answer() -> None:
    advantages = remax(torch.tensor([[1.0, 0.5], [2.0, 2.0]]), greedy_scores=torch.tensor([0.5, 2.0]))
    assert advantages.tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_an_answers_advantage_stands_on_each_of_its_tokens() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
    tokens = over_tokens(torch.tensor([[0.5, -0.5], [2.0, 1.0]]), mask)
    assert tokens.tolist() == [[0.5, 0.5, 0.0], [-0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
