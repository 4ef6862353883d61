import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.algorithms.kl import KlEstimator, adapted_kl_coef, token_kl

logprob = st.floats(min_value=-60, max_value=0, width=32)


@given(st.lists(st.tuples(logprob, logprob), min_size=1, max_size=20))
def test_k2_and_k3_are_never_negative_and_always_finite(pairs: list[tuple[float, float]]) -> None:
    policy, reference = torch.tensor(pairs, dtype=torch.float32).T
    for estimator in (KlEstimator.K2, KlEstimator.K3):
        estimate = token_kl(policy, reference, estimator=estimator)
        assert (estimate >= 0).all()
        assert torch.isfinite(estimate).all()


@pytest.mark.parametrize("difference", [0.0, 1e-9, -1e-9, 1e-4, -1e-4])
def test_k3_keeps_its_sign_and_size_near_zero(difference: float) -> None:
    policy = torch.tensor([0.0], dtype=torch.float64)
    estimate = token_kl(policy, policy + difference, estimator=KlEstimator.K3).item()
    assert estimate >= 0.0
    assert estimate == pytest.approx(difference**2 / 2, rel=1e-3, abs=1e-15)


def test_k1_may_be_negative() -> None:
    assert token_kl(torch.tensor([-2.0]), torch.tensor([-1.0]), estimator=KlEstimator.K1).item() == -1.0


def test_coefficient_stays_on_target_and_is_bounded_far_from_it() -> None:
    numbers = {"target": 6.0, "horizon": 10000.0, "num_episodes": 500}
    assert adapted_kl_coef(0.1, sequence_kl=6.0, **numbers) == 0.1
    assert adapted_kl_coef(0.1, sequence_kl=6.6, **numbers) == pytest.approx(0.1 * 1.005)
    assert adapted_kl_coef(0.1, sequence_kl=1e9, **numbers) == pytest.approx(0.1 * 1.01)
    assert adapted_kl_coef(0.1, sequence_kl=-1.0, **numbers) == pytest.approx(0.1 * 0.99)
    assert math.isfinite(adapted_kl_coef(0.1, sequence_kl=math.inf, **numbers))
