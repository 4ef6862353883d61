import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlhf_ray.algorithms.gae import gae
from rlhf_ray.algorithms.masking import mask_from_lengths

MASK = mask_from_lengths(torch.tensor([3]), width=5)
REWARDS = torch.tensor([[-0.01, 0.0, 1.005, 1e6, 1e6]], dtype=torch.float64)
VALUES = torch.tensor([[0.5, 0.4, 0.2, 1e6, -1e6]], dtype=torch.float64)


def test_terminal_answer_by_hand_with_absurd_pads() -> None:
    advantages, returns = gae(REWARDS, VALUES, MASK, gamma=1.0, lam=0.95)
    assert advantages.tolist()[0] == pytest.approx([0.4265125, 0.56475, 0.805, 0.0, 0.0], abs=1e-12)
    assert returns.tolist()[0] == pytest.approx([0.9265125, 0.96475, 1.005, 0.0, 0.0], abs=1e-12)


def test_cut_answer_bootstraps_from_the_next_value() -> None:
    both = [torch.cat([tensor, tensor]) for tensor in (REWARDS, VALUES, MASK)]
    advantages, _ = gae(*both, gamma=1.0, lam=0.95, bootstrap=torch.tensor([0.3, 0.0], dtype=torch.float64))
    assert advantages.tolist()[0] == pytest.approx([0.6972625, 0.84975, 1.105, 0.0, 0.0], abs=1e-12)
    assert advantages.tolist()[1] == pytest.approx([0.4265125, 0.56475, 0.805, 0.0, 0.0], abs=1e-12)


def test_rows_without_tokens_and_windows_without_slots_are_safe() -> None:
    advantages, returns = gae(
        REWARDS, VALUES, torch.zeros_like(MASK), gamma=1.0, lam=0.95, bootstrap=torch.tensor([9.0])
    )
    assert advantages.abs().sum().item() == returns.abs().sum().item() == 0.0
    empty = torch.zeros(2, 0)
    advantages, _ = gae(empty, empty, empty, gamma=1.0, lam=0.95)
    assert advantages.shape == (2, 0)


numbers = st.floats(min_value=-3, max_value=3)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    width = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(0, width), min_size=1, max_size=4))
    rows = st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=len(lengths), max_size=len(lengths))
    rewards, values = (torch.tensor(draw(rows), dtype=torch.float64) for _ in range(2))
    return rewards, values, mask_from_lengths(torch.tensor(lengths), width=width)


def slow_gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """The definition, A_t = sum_k (gamma lam)^k d_{t+k}, one token at a time."""
    advantages = torch.zeros_like(rewards)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        for t in range(length):
            for k in range(t, length):
                next_value = values[row, k + 1] if k + 1 < length else 0.0
                delta = rewards[row, k] + gamma * next_value - values[row, k]
                advantages[row, t] += (gamma * lam) ** (k - t) * delta
    return advantages


@given(batches(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_equals_the_sum_of_discounted_errors(batch: tuple[Tensor, Tensor, Tensor], gamma: float, lam: float) -> None:
    advantages, returns = gae(*batch, gamma=gamma, lam=lam)
    rewards, values, mask = batch
    torch.testing.assert_close(advantages, slow_gae(rewards, values, mask, gamma, lam), rtol=0, atol=1e-9)
    torch.testing.assert_close(returns, advantages + values * mask, rtol=0, atol=1e-9)


@given(batches())
def test_lambda_one_is_reward_to_go_and_lambda_zero_one_step(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    rewards, values, mask = batch
    kept = rewards * mask
    to_go = kept.flip(1).cumsum(1).flip(1) * mask
    torch.testing.assert_close(gae(*batch, gamma=1.0, lam=1.0)[0], to_go - values * mask, rtol=0, atol=1e-9)
    no_critic = gae(rewards, torch.zeros_like(values), mask, gamma=1.0, lam=1.0)[0]
    torch.testing.assert_close(no_critic, to_go, rtol=0, atol=1e-9)
    valued = values * mask
    following = torch.cat([valued[:, 1:], torch.zeros_like(valued[:, :1])], dim=1)
    torch.testing.assert_close(
        gae(*batch, gamma=0.9, lam=0.0)[0], (kept + 0.9 * following - valued) * mask, rtol=0, atol=1e-9
    )


@given(batches())
def test_more_padding_changes_nothing(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    rewards, values, mask = batch
    absurd = torch.full((len(mask), 2), 1e6, dtype=torch.float64)
    wider = gae(
        torch.cat([rewards, absurd], dim=1),
        torch.cat([values, -absurd], dim=1),
        torch.cat([mask, absurd < 0], dim=1),
        gamma=0.9,
        lam=0.95,
    )
    for got, expected in zip(wider, gae(*batch, gamma=0.9, lam=0.95), strict=True):
        assert got[:, : mask.shape[1]].equal(expected)
        assert not got[:, mask.shape[1] :].any()
