import math

import pytest
import torch

from rlhf_ray.algorithms.masking import (
    mask_from_lengths,
    masked_mean,
    masked_sum,
    masked_whiten,
    position_ids,
    response_lengths,
    truncate_after_first_eos,
)

MASK = torch.tensor([[True, True, False], [True, False, False]])


def test_mask_is_true_on_the_first_length_slots() -> None:
    mask = mask_from_lengths(torch.tensor([2, 0, 3]), width=3)
    assert mask.tolist() == [[True, True, False], [False, False, False], [True, True, True]]


def test_what_stands_outside_the_mask_never_leaks() -> None:
    values = torch.tensor([[1.0, 2.0, math.nan], [6.0, math.inf, -1e30]])
    assert masked_sum(values, MASK).item() == 9.0
    assert masked_sum(values, MASK, dim=1).tolist() == [3.0, 6.0]
    assert masked_mean(values, MASK).item() == 3.0
    whitened = masked_whiten(values, MASK, shift_mean=True)
    assert whitened[~MASK].tolist() == [0.0, 0.0, 0.0]
    assert whitened[MASK].tolist() == pytest.approx(
        [-2 / math.sqrt(14 / 3), -1 / math.sqrt(14 / 3), 3 / math.sqrt(14 / 3)]
    )


def test_mean_of_nothing_is_zero() -> None:
    assert masked_mean(torch.full((2, 3), math.nan), torch.zeros(2, 3)).item() == 0.0


@pytest.mark.parametrize("unbiased", [False, True])
def test_whitening_one_token_or_none_is_finite(*, unbiased: bool) -> None:
    values = torch.tensor([[7.0, 1e6]])
    one, none = torch.tensor([[1, 0]]), torch.tensor([[0, 0]])
    assert masked_whiten(values, one, shift_mean=True, unbiased=unbiased).tolist() == [[0.0, 0.0]]
    assert masked_whiten(values, one, shift_mean=False, unbiased=unbiased).tolist() == [[7.0, 0.0]]
    assert masked_whiten(values, none, shift_mean=True, unbiased=unbiased).tolist() == [[0.0, 0.0]]


def test_any_of_several_end_tokens_ends_an_answer() -> None:
    tokens = torch.tensor([[7, 5, 2, 9], [7, 8, 9, 2], [7, 8, 9, 9]])
    lengths, contains_eos = response_lengths(tokens, eos_token_ids=(2, 5))
    assert lengths.tolist() == [2, 4, 4]
    # an answer that fills the width is finished if, and only if, it ends in an end token
    assert contains_eos.tolist() == [True, True, False]
    truncated = truncate_after_first_eos(tokens, eos_token_ids=(2, 5), pad_token_id=0)
    assert truncated.tolist() == [[7, 5, 0, 0], [7, 8, 9, 2], [7, 8, 9, 9]]


def test_answers_of_a_window_without_slots_have_length_zero() -> None:
    lengths, contains_eos = response_lengths(torch.zeros(2, 0, dtype=torch.long), eos_token_ids=(2,))
    assert lengths.tolist() == [0, 0]
    assert contains_eos.tolist() == [False, False]


def test_positions_count_real_tokens_under_padding_on_either_side() -> None:
    assert position_ids(torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 0, 0]]
