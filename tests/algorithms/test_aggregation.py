import pytest
import torch

from rlhf_ray.algorithms.aggregation import LossForm, aggregation_weights

# two answers: 2 tokens with loss 1 each, 6 tokens with loss 4 each
MASK = torch.tensor([[1] * 2 + [0] * 4, [1] * 6])
TERMS = torch.tensor([[1.0] * 2 + [1e6] * 4, [4.0] * 6], dtype=torch.float64)


def loss(form: LossForm, micro_batches: list[list[int]]) -> float:
    """Summed over micro-batches first, divided by the whole step's row counts last: the learner's way."""
    weights, row_counts = aggregation_weights(MASK, form=form, norm_length=6)
    total = sum(float((weights[rows] * TERMS[rows]).sum()) for rows in micro_batches)
    return total / float(row_counts.sum())


@pytest.mark.parametrize("micro_batches", [[[0, 1]], [[1, 0]], [[0], [1]], [[1], [0]], [[0], [], [1]]])
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (LossForm.TOKEN_MEAN, 3.25),  # 2.5, the mean of means, is the known mistake
        (LossForm.SEQUENCE_MEAN_TOKEN_MEAN, 2.5),
        (LossForm.SEQUENCE_MEAN_TOKEN_SUM, 13.0),
        (LossForm.TOKEN_SUM_NORM, 26 / 6),
    ],
)
def test_loss_is_the_same_in_every_layout(form: LossForm, expected: float, micro_batches: list[list[int]]) -> None:
    assert loss(form, micro_batches) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", list(LossForm))
def test_rows_without_trained_tokens_do_not_count(form: LossForm) -> None:
    weights, row_counts = aggregation_weights(torch.cat([MASK, torch.zeros(1, 6)]), form=form, norm_length=6)
    expected_weights, expected_counts = aggregation_weights(MASK, form=form, norm_length=6)
    assert weights[:2].equal(expected_weights)
    assert row_counts.tolist() == [*expected_counts.tolist(), 0.0]
    nothing, none = aggregation_weights(torch.zeros(2, 3), form=form, norm_length=6)
    assert nothing.abs().sum().item() == none.sum().item() == 0.0
