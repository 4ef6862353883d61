import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlhf_ray.algorithms.kl import KlEstimator
from rlhf_ray.algorithms.losses import BradleyTerryLoss, LossOutput, PolicyLoss, SftLoss, ValueLoss, ratio_stats
from rlhf_ray.types import (
    Histogram,
    Last,
    Mean,
    PolicyOutputs,
    PolicyTargets,
    PreferenceTargets,
    SftTargets,
    Stats,
    ValueOutputs,
    ValueTargets,
    merge_stats,
)


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def policy_loss(
    *, dual_clip: float | None = None, entropy_coef: float = 0.0, kl_coef: float = 0.0, clip_high: float = 0.2
) -> PolicyLoss:
    return PolicyLoss(
        clip_low=0.2,
        clip_high=clip_high,
        dual_clip=dual_clip,
        entropy_coef=entropy_coef,
        kl_coef=kl_coef,
        kl_estimator=KlEstimator.K1,
    )


def one_token(loss: PolicyLoss, *, ratio: float, advantage: float, kl: float = 0.0) -> tuple[LossOutput, float]:
    """The loss of a token with old log-prob -1 and entropy 2, and its gradient in the new log-prob."""
    logprobs = f64(-1.0 + math.log(ratio)).requires_grad_()
    targets = PolicyTargets(
        weights=f64(1.0), old_logprobs=f64(-1.0), ref_logprobs=logprobs.detach() - kl, advantages=f64(advantage)
    )
    output = loss(PolicyOutputs(logprobs=logprobs, entropy=f64(2.0)), targets)
    (gradient,) = torch.autograd.grad(output.loss_sum, logprobs)
    return output, gradient.item()


def values_of(stats: Stats) -> dict[str, float | None]:
    return {name: stat.value for name, stat in stats.items()}


def test_worked_step() -> None:
    output, _ = one_token(policy_loss(kl_coef=0.01), ratio=1.15, advantage=0.3, kl=0.05)
    stats = values_of(output.stats)
    assert stats["loss/policy_avg"] == pytest.approx(-0.345, abs=1e-12)
    assert stats["loss/kl_avg"] == pytest.approx(0.05, abs=1e-12)
    assert output.loss_sum.item() == pytest.approx(-0.3445, abs=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "binds"),
    [(1.3, 1.0, "high"), (0.7, -1.0, "low"), (1.3, -1.0, ""), (0.7, 1.0, ""), (1.1, 1.0, ""), (1.3, 0.0, "")],
)
def test_gradient_vanishes_where_the_clip_binds_and_only_there(ratio: float, advantage: float, binds: str) -> None:
    output, gradient = one_token(policy_loss(), ratio=ratio, advantage=advantage)
    assert gradient == pytest.approx(0.0 if binds else -ratio * advantage, abs=1e-12)
    stats = values_of(output.stats)
    assert stats["policy/clipfrac_avg"] == float(bool(binds))
    assert stats["policy/clipfrac_low_avg"] == float(binds == "low")
    assert stats["policy/clipfrac_high_avg"] == float(binds == "high")


def test_higher_upper_clip_lets_good_tokens_grow_further() -> None:
    assert one_token(policy_loss(clip_high=0.28), ratio=1.25, advantage=1.0)[1] == pytest.approx(-1.25)
    assert one_token(policy_loss(), ratio=1.25, advantage=1.0)[1] == 0.0


def test_dual_clip_bounds_bad_tokens_beyond_its_ratio() -> None:
    output, gradient = one_token(policy_loss(dual_clip=3.0), ratio=4.0, advantage=-0.5)
    assert output.loss_sum.item() == pytest.approx(1.5)
    assert gradient == 0.0
    assert one_token(policy_loss(dual_clip=3.0), ratio=2.0, advantage=-0.5)[1] == pytest.approx(1.0)
    assert one_token(policy_loss(dual_clip=3.0), ratio=4.0, advantage=0.5)[0].loss_sum.item() == pytest.approx(-0.6)


def test_entropy_bonus_lowers_the_loss_and_has_a_gradient() -> None:
    entropy = f64(2.0).requires_grad_()
    targets = PolicyTargets(weights=f64(1.0), old_logprobs=f64(-1.0), ref_logprobs=f64(-1.0), advantages=f64(0.5))
    output = policy_loss(entropy_coef=0.1)(PolicyOutputs(logprobs=f64(-1.0), entropy=entropy), targets)
    assert output.loss_sum.item() == pytest.approx(-0.5 - 0.2)
    assert torch.autograd.grad(output.loss_sum, entropy)[0].item() == pytest.approx(-0.1)


@pytest.mark.parametrize("gap", [60.0, -60.0])
def test_a_broken_token_stays_finite_in_float32(gap: float) -> None:
    logprobs = torch.tensor([gap], requires_grad=True)
    zero = torch.zeros(1)
    targets = PolicyTargets(weights=torch.ones(1), old_logprobs=zero, ref_logprobs=zero, advantages=-torch.ones(1))
    output = policy_loss(kl_coef=0.1)(PolicyOutputs(logprobs=logprobs, entropy=zero), targets)
    output.loss_sum.backward()
    assert torch.isfinite(output.loss_sum)
    assert torch.isfinite(logprobs.grad).all()
    assert output.stats["policy/ratio_max"].value == pytest.approx(math.exp(math.copysign(20, gap)), rel=1e-5)


def test_value_clip_by_hand() -> None:
    # moved from 0 to 1 towards 2: held at 0.2 the error is larger, and the gradient is gone
    values = f64(1.0, 0.1).requires_grad_()
    targets = ValueTargets(weights=f64(1.0, 1.0), old_values=f64(0.0, 0.0), returns=f64(2.0, 2.0))
    output = ValueLoss(clip=0.2)(ValueOutputs(values=values, scores=f64()), targets)
    assert output.loss_sum.item() == pytest.approx((1.8**2 + 1.9**2) / 2)
    assert torch.autograd.grad(output.loss_sum, values)[0].tolist() == pytest.approx([0.0, -1.9])
    assert output.stats["val/clipfrac_avg"] == Mean(1.0, 2.0)


def test_group_of_three_answers_is_all_its_pairs() -> None:
    # labels 2 > 1 > 1: the first answer beats both others, which are equal
    scores, labels = f64(1.0, 0.0, 3.0), f64(2.0, 1.0, 1.0)
    output = BradleyTerryLoss(group_size=3)(ValueOutputs(values=f64(), scores=scores), PreferenceTargets(labels=labels))
    expected = math.log1p(math.exp(-1.0)) + math.log1p(math.exp(2.0))
    assert output.loss_sum.item() == pytest.approx(expected)
    assert output.stats["reward_model/loss"] == Mean(pytest.approx(expected), 2)
    assert output.stats["reward_model/accuracy"] == Mean(1.0, 2)
    assert output.stats["reward_model/margin_mean"] == Mean(-1.0, 2)


def test_tied_scores_are_not_accurate_and_tied_labels_are_no_pair() -> None:
    outputs = ValueOutputs(values=f64(), scores=f64(0.5, 0.5))
    tied_scores = BradleyTerryLoss(group_size=2)(outputs, PreferenceTargets(labels=f64(1.0, 0.0)))
    assert tied_scores.stats["reward_model/accuracy"] == Mean(0.0, 1)
    assert tied_scores.loss_sum.item() == pytest.approx(math.log(2))
    tied_labels = BradleyTerryLoss(group_size=2)(outputs, PreferenceTargets(labels=f64(1.0, 1.0)))
    assert tied_labels.loss_sum.item() == 0.0
    assert tied_labels.stats["reward_model/accuracy"].value is None


def test_supervised_loss_is_the_token_mean_of_trained_tokens() -> None:
    output = SftLoss()(
        PolicyOutputs(logprobs=f64(-1.0, -2.0, -9.0), entropy=f64(0, 0, 0)), SftTargets(weights=f64(1, 1, 0))
    )
    assert output.loss_sum.item() == 3.0
    assert output.stats["sft/loss"] == Mean(3.0, 2)


def test_ratio_statistics_run_over_all_trained_tokens() -> None:
    stats = ratio_stats(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    distribution = stats.pop("policy/ratio_histogram")
    assert isinstance(distribution, Histogram)
    assert {edge: n for edge, n in zip(distribution.edges, distribution.counts, strict=False) if n} == {
        1.0: 1,
        distribution.edges[-2]: 3,
    }
    assert stats == {
        "policy/ratio_p05": Last(pytest.approx(1.15)),
        "policy/ratio_p50": Last(2.5),
        "policy/ratio_p95": Last(pytest.approx(3.85)),
        "val/ratio_var": Last(pytest.approx(5 / 3)),
    }
    assert {stat.value for stat in ratio_stats(torch.zeros(0)).values()} == {None}


# ------------------------------------------------------------------------------ layouts, for every loss


class Batch:
    """Rows with everything any loss wants; tokens of untrained rows hold absurd numbers."""

    def __init__(self, lengths: Sequence[int], *, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        size = sum(lengths)
        names = ("logprobs", "entropy", "old", "ref", "advantages", "values", "returns")
        self.tokens = {name: torch.randn(size, generator=generator, dtype=torch.float64) for name in names}
        self.tokens["weights"] = torch.rand(size, generator=generator, dtype=torch.float64) + 0.1
        self.scores = torch.randn(len(lengths), generator=generator, dtype=torch.float64)
        self.labels = torch.arange(len(lengths), dtype=torch.float64).flip(0)
        starts = [sum(lengths[:row]) for row in range(len(lengths))]
        self.slots = [torch.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)]

    def run(self, name: str, rows: Sequence[int], *, pads: int) -> tuple[LossOutput, Tensor]:
        """A micro-batch of these rows with `pads` untrained tokens at its end, and its gradient per trained token."""
        where = torch.cat([torch.zeros(0, dtype=torch.long), *(self.slots[row] for row in rows)])
        absurd = torch.full((pads,), 1e6, dtype=torch.float64)
        at = {key: torch.cat([tensor[where], absurd]) for key, tensor in self.tokens.items()}
        at["weights"] = torch.cat([self.tokens["weights"][where], torch.zeros(pads)])
        key = {"policy": "logprobs", "sft": "logprobs", "value": "values"}.get(name)
        leaf = (self.scores[list(rows)] if key is None else at[key]).clone().requires_grad_()
        if key is not None:
            at[key] = leaf
        policy = PolicyOutputs(logprobs=at["logprobs"], entropy=at["entropy"])
        value = ValueOutputs(values=at["values"], scores=leaf)
        match name:
            case "policy":
                targets = PolicyTargets(
                    weights=at["weights"], old_logprobs=at["old"], ref_logprobs=at["ref"], advantages=at["advantages"]
                )
                output = policy_loss(dual_clip=3.0, entropy_coef=0.1, kl_coef=0.1)(policy, targets)
            case "value":
                targets = ValueTargets(weights=at["weights"], old_values=at["old"], returns=at["returns"])
                output = ValueLoss(clip=0.2)(value, targets)
            case "sft":
                output = SftLoss()(policy, SftTargets(weights=at["weights"]))
            case "pairs":
                labels = self.labels[list(rows)]
                output = BradleyTerryLoss(group_size=2)(value, PreferenceTargets(labels=labels))
        (gradient,) = torch.autograd.grad(output.loss_sum, leaf)
        count = len(gradient) if key is None else len(where)
        assert not gradient[count:].any()
        return output, gradient[:count]


LOSSES = ["policy", "value", "sft", "pairs"]


def assert_same_stats(got: Stats, expected: Stats) -> None:
    assert set(got) == set(expected)
    for name, stat in expected.items():
        assert got[name].value == pytest.approx(stat.value, abs=1e-12), name


@pytest.mark.parametrize("name", LOSSES)
def test_padding_changes_neither_loss_nor_gradient_nor_stats(name: str) -> None:
    batch = Batch([3, 1, 4, 2])
    plain, gradient = batch.run(name, range(4), pads=0)
    padded, padded_gradient = batch.run(name, range(4), pads=7)
    torch.testing.assert_close(padded.loss_sum, plain.loss_sum, rtol=0, atol=1e-12)
    torch.testing.assert_close(padded_gradient, gradient, rtol=0, atol=1e-12)
    assert_same_stats(padded.stats, plain.stats)


@pytest.mark.parametrize("name", LOSSES)
@given(order=st.permutations(range(4)), size=st.integers(1, 4), seed=st.integers(0, 100))
def test_micro_batches_and_their_order_change_nothing(name: str, order: list[int], size: int, seed: int) -> None:
    batch = Batch([3, 1, 4, 2, 0, 5, 2, 2], seed=seed)
    groups = [[2 * index, 2 * index + 1] for index in order]  # pairs stay together, as in every learner
    whole, gradient = batch.run(name, range(8), pads=0)
    parts = [[row for group in groups[start : start + size] for row in group] for start in range(0, 4, size)]
    outputs = [batch.run(name, rows, pads=start) for start, rows in enumerate(parts)]
    torch.testing.assert_close(sum(output.loss_sum for output, _ in outputs), whole.loss_sum, rtol=0, atol=1e-9)
    assert_same_stats(merge_stats(output.stats for output, _ in outputs), whole.stats)
    by_row = torch.zeros_like(gradient)
    for rows, (_, part) in zip(parts, outputs, strict=True):
        where = torch.tensor(rows) if name == "pairs" else torch.cat([batch.slots[row] for row in rows])
        by_row[where] = part
    torch.testing.assert_close(by_row, gradient, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_a_micro_batch_without_trained_tokens_adds_nothing(name: str) -> None:
    batch = Batch([3, 2])
    whole, _ = batch.run(name, range(2), pads=0)
    none, gradient = batch.run(name, [], pads=3)
    assert none.loss_sum.item() == 0.0
    assert gradient.numel() == 0
    assert_same_stats(merge_stats([whole.stats, none.stats]), whole.stats)


def test_weights_scale_the_loss_but_not_the_measurements() -> None:
    batch = Batch([3, 2])
    plain, _ = batch.run("policy", range(2), pads=0)
    batch.tokens["weights"] = batch.tokens["weights"] * 10
    scaled, _ = batch.run("policy", range(2), pads=0)
    assert scaled.loss_sum.item() == pytest.approx(10 * plain.loss_sum.item())
    assert_same_stats(scaled.stats, plain.stats)


def test_the_policy_that_answered_has_ratio_one_and_no_divergence() -> None:
    batch = Batch([3, 2])
    batch.tokens["old"] = batch.tokens["logprobs"].clone()
    output, gradient = batch.run("policy", range(2), pads=0)
    stats = values_of(output.stats)
    assert stats["val/ratio"] == stats["policy/ratio_max"] == 1.0
    assert stats["policy/approxkl_avg"] == stats["policy/approxkl_k3_avg"] == stats["policy/clipfrac_avg"] == 0.0
    assert output.ratios is not None
    assert not output.ratios.requires_grad
    assert gradient.abs().sum() > 0
