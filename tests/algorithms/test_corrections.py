import pytest
import torch

from rlhf_ray.algorithms.corrections import (
    CorrectionKind,
    RolloutCorrection,
    correction_weights,
    effective_sample_share,
    mismatch_kl,
)

MASK = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0]])


def correction(kind: CorrectionKind) -> RolloutCorrection:
    return RolloutCorrection(kind=kind, low=0.5, high=2.0)


@pytest.mark.parametrize("kind", list(CorrectionKind))
def test_a_generator_that_agrees_gets_weight_one_and_pads_get_none(kind: CorrectionKind) -> None:
    log_ratio = torch.where(MASK.bool(), 0.0, 1e6)
    weights = correction_weights(log_ratio, MASK, correction=correction(kind))
    assert weights.tolist() == MASK.float().tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (CorrectionKind.TIS_TOKEN, [2.0, 0.25, 1.0]),
        (CorrectionKind.TIS_SEQUENCE, [0.75, 0.75, 0.75]),  # 3 * 0.25 * 1
        (CorrectionKind.ICEPOP, [0.0, 0.0, 1.0]),
        (CorrectionKind.SEQUENCE_MASK, [1.0, 1.0, 1.0]),  # 0.75 ** (1 / 3) = 0.909
    ],
)
def test_weights_by_hand(kind: CorrectionKind, expected: list[float]) -> None:
    log_ratio = torch.tensor([[3.0, 0.25, 1.0]], dtype=torch.float64).log()
    weights = correction_weights(log_ratio, torch.ones(1, 3), correction=correction(kind))
    assert weights[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_a_row_far_from_its_generator_is_left_out_whole() -> None:
    log_ratio = torch.tensor([[0.0, 3.0], [0.1, -0.1]])
    weights = correction_weights(log_ratio, torch.ones(2, 2), correction=correction(CorrectionKind.SEQUENCE_MASK))
    assert weights.tolist() == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("kind", list(CorrectionKind))
def test_broken_log_probs_stay_finite(kind: CorrectionKind) -> None:
    weights = correction_weights(torch.full((2, 2), 1e4), torch.ones(2, 2), correction=correction(kind))
    assert torch.isfinite(weights).all()


def test_agreement_has_no_mismatch_and_a_full_sample() -> None:
    zero = torch.zeros(MASK.shape)
    assert mismatch_kl(zero, MASK).item() == 0.0
    assert effective_sample_share(zero, MASK, cap=2.0).item() == 1.0
    assert mismatch_kl(zero, torch.zeros(MASK.shape)).item() == 0.0
