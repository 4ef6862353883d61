"""Micro-batches, order and padding must not change a step."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import (
    EOS,
    LAYOUTS,
    METRICS,
    PPO,
    RESPONSES,
    SEQUENCES,
    SETTINGS,
    critic_learner,
    plan,
    policy_batch,
    policy_learner,
    sft_batch,
    value_batch,
)
from tiny_models import write_llama

from rlhf_ray.algorithms.losses import BradleyTerryLoss, LossOutput, SftLoss, ValueLoss
from rlhf_ray.learner.torch_learner import TorchLearner
from rlhf_ray.models.load import load_language_model
from rlhf_ray.types import (
    Mean,
    PolicyOutputs,
    PreferenceTargets,
    Ragged,
    Sequences,
    SftTargets,
    TrainBatch,
    ValueOutputs,
)

TWO_ROWS = Sequences(
    tokens=Ragged.from_rows([[9, 1, 2], [9, 3, 4, 5, 6, 7, 8]], np.int32), prompt_lengths=np.array([1, 1])
)


@dataclasses.dataclass(frozen=True)
class FixedLoss:
    """Loss 1 on each token of a row of weight 1, 4 on each of weight 4, and a gradient through the log-probs."""

    def __call__(self, outputs: PolicyOutputs[torch.Tensor], targets: SftTargets[torch.Tensor]) -> LossOutput:
        terms = targets.weights * (outputs.logprobs / outputs.logprobs.detach())
        return LossOutput(
            loss_sum=terms.sum(), stats={"toy/loss": Mean(float(terms.detach().sum()), float(terms.numel()))}
        )


def fixed_batch() -> TrainBatch[SftTargets[Ragged]]:
    weights = Ragged.from_rows([np.full(2, 1.0), np.full(6, 4.0)], np.float64)
    return TrainBatch(
        sequences=TWO_ROWS,
        targets=SftTargets(weights=weights),
        row_counts=np.array([2.0, 6.0]),
        rows_per_group=1,
    )


def gradients_after_update(path: Path, *, max_tokens: int, rows: list[int]) -> tuple[float, dict[str, torch.Tensor]]:
    model = load_language_model(path, dtype=torch.float64)
    learner = TorchLearner(
        model,
        settings=dataclasses.replace(SETTINGS, max_tokens=max_tokens, max_grad_norm=float("inf")),
        metrics=METRICS,
    )
    result = learner.update(fixed_batch(), plan=plan(0.0, rows=np.array(rows)), loss=FixedLoss(), stop=None)
    loss = result.stats["toy/loss"].value
    assert loss is not None
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss, gradients


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_token_mean_is_three_and_a_quarter_and_gradients_agree_in_every_layout(
    family: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(family)
    loss, expected = gradients_after_update(path, max_tokens=1000, rows=[0, 1])
    assert loss == pytest.approx(3.25)
    assert max(g.abs().max().item() for g in expected.values()) > 1e-3
    for max_tokens, rows in ((1, [0, 1]), (1000, [1, 0]), (1, [1, 0])):
        other_loss, gradients = gradients_after_update(path, max_tokens=max_tokens, rows=rows)
        assert other_loss == pytest.approx(3.25)
        assert gradients.keys() == expected.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("pad", [None, EOS], ids=["no pad token", "pad is the end token"])
def test_each_answer_alone_adds_its_share_of_the_padded_batch(pad: int | None, tmp_path: Path) -> None:
    learner = policy_learner(write_llama(tmp_path, tied=False, pad=pad), dtype=torch.float64)
    whole = learner.evaluate(sft_batch(), SftLoss())["sft/loss"]
    alone = [learner.evaluate(sft_batch(trained=[i]), SftLoss())["sft/loss"] for i in range(len(RESPONSES))]
    assert isinstance(whole, Mean)
    assert whole.count == sum(len(response) for response in RESPONSES)
    assert sum(part.total for part in alone if isinstance(part, Mean)) == pytest.approx(whole.total, abs=1e-6)


def test_metrics_do_not_grow_with_epochs_or_micro_batches(llama: Path) -> None:
    batch = policy_batch(policy_learner(llama))
    one = policy_learner(llama).update(batch, plan=plan(0.0), loss=PPO, stop=None).stats
    four = policy_learner(llama, max_tokens=1).update(batch, plan=plan(0.0, 0.0, 0.0, 0.0), loss=PPO, stop=None).stats
    for name in ("policy/entropy_avg", "loss/policy_avg", "val/ratio", "policy/grad_norm"):
        assert one[name].value == pytest.approx(four[name].value, abs=1e-5), name


def test_an_all_masked_micro_batch_adds_nothing(llama: Path) -> None:
    rows = np.array([0, 4])
    with_masked = policy_learner(llama, dtype=torch.float64, max_tokens=1)
    result = with_masked.update(sft_batch(trained=[0]), plan=plan(0.01, rows=rows), loss=SftLoss(), stop=None)
    without = policy_learner(llama, dtype=torch.float64, max_tokens=1)
    same = without.update(sft_batch(trained=[0]), plan=plan(0.01, rows=rows[:1]), loss=SftLoss(), stop=None)
    assert result.stats["sft/loss"].value == pytest.approx(same.stats["sft/loss"].value, abs=1e-12)
    for name, weight in without.named_weights():
        torch.testing.assert_close(dict(with_masked.named_weights())[name], weight, rtol=0, atol=1e-12)


def test_rows_without_any_response_token_train_nothing_and_break_nothing(llama: Path) -> None:
    empty = Sequences(tokens=Ragged.from_rows([[1, 2], [3]], np.int32), prompt_lengths=np.array([2, 1]))
    none = Ragged.from_rows([[], []], np.float32)
    batch = TrainBatch(
        sequences=empty, targets=SftTargets(weights=none), row_counts=np.array([1.0, 1.0]), rows_per_group=1
    )
    result = policy_learner(llama).update(batch, plan=plan(0.0, rows=np.arange(2)), loss=SftLoss(), stop=None)
    assert result.stats["policy/grad_norm"] == Mean(0.0, 1.0)


@pytest.mark.parametrize("max_tokens", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_critic_learns_through_the_same_update_in_every_layout(llama: Path, max_tokens: int) -> None:
    learner = critic_learner(llama, max_tokens=max_tokens)
    batch = value_batch(learner)
    result = learner.update(batch, plan=plan(1e-2, 1e-2), loss=ValueLoss(clip=None), stop=None)
    first = critic_learner(llama).update(batch, plan=plan(1e-2, 1e-2), loss=ValueLoss(clip=None), stop=None)
    assert result.stats["loss/value_avg"].value == pytest.approx(first.stats["loss/value_avg"].value, abs=1e-6)
    after = learner.evaluate(batch, ValueLoss(clip=None))["loss/value_avg"].value
    assert after is not None
    assert after < 2.0  # 0.5 * 2^2 at the start


@pytest.mark.parametrize("max_tokens", [1, 1000])
def test_groups_of_answers_are_compared_whole_in_every_layout(llama: Path, max_tokens: int) -> None:
    labels = Ragged.from_rows([[3.0], [1.0], [2.0], [0.0]], np.float32)
    batch = TrainBatch(
        sequences=Sequences(tokens=SEQUENCES.tokens.take(range(4)), prompt_lengths=SEQUENCES.prompt_lengths[:4]),
        targets=PreferenceTargets(labels=labels),
        row_counts=np.array([1.0, 0.0, 1.0, 0.0]),  # comparisons won
        rows_per_group=2,
    )
    learner = critic_learner(llama, max_tokens=max_tokens)
    scores = learner.forward(batch.sequences)
    assert isinstance(scores, ValueOutputs)
    margins = scores.scores.values[[0, 2]] - scores.scores.values[[1, 3]]
    steps = plan(1e-2, *[1e-2] * 9, rows=np.array([2, 3, 0, 1]))
    result = learner.update(batch, plan=steps[:1], loss=BradleyTerryLoss(group_size=2), stop=None)
    assert result.stats["reward_model/loss"].value == pytest.approx(np.log1p(np.exp(-margins)).mean(), abs=1e-6)
    learner.update(batch, plan=steps[1:], loss=BradleyTerryLoss(group_size=2), stop=None)
    assert learner.evaluate(batch, BradleyTerryLoss(group_size=2))["reward_model/accuracy"].value == 1.0
