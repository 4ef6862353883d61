"""Optimizer steps: how many, how large, and when none."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import (
    EOS,
    METRICS,
    PPO,
    SETTINGS,
    plan,
    policy_batch,
    policy_learner,
    sft_batch,
    weights_of,
)
from tiny_models import write_llama

from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.errors import DivergedError
from rlhf_ray.learner.torch_learner import TorchLearner
from rlhf_ray.models.load import load_language_model
from rlhf_ray.types import (
    Last,
    Minibatch,
    SftTargets,
    StopRule,
    Sum,
)


@pytest.mark.parametrize("pad", [None, EOS], ids=["no pad token", "pad is the end token"])
def test_the_final_end_token_keeps_its_gradient_and_padding_has_none(pad: int | None, tmp_path: Path) -> None:
    model = load_language_model(write_llama(tmp_path, tied=False, pad=pad), dtype=torch.float64)
    TorchLearner(model, settings=SETTINGS, metrics=METRICS).update(
        sft_batch(trained=[2]), plan=plan(0.0, rows=np.array([2, 4])), loss=SftLoss(), stop=None
    )
    head, embedding = model.causal.lm_head.weight.grad, model.causal.get_input_embeddings().weight.grad
    assert head is not None
    assert embedding is not None
    assert head[EOS].abs().max() > 1e-3
    assert embedding[0].abs().max() == 0  # 0 is what fills the rectangle


def test_optimizer_steps_are_epochs_times_minibatches(llama: Path) -> None:
    halves = [np.array([0, 1]), np.array([2, 3, 4])]
    steps = [Minibatch(rows=rows, learning_rate=1e-3, epoch=epoch) for epoch in range(4) for rows in halves]
    result = policy_learner(llama).update(sft_batch(), plan=steps, loss=SftLoss(), stop=None)
    assert (result.optimizer_steps, result.epochs) == (8, 4)
    assert result.stats["policy/skipped_steps"] == Sum(0.0)
    assert result.stats["lr"] == Last(1e-3)


def test_training_lowers_the_loss(llama: Path) -> None:
    learner = policy_learner(llama)
    before = learner.evaluate(sft_batch(), SftLoss())["sft/loss"].value
    learner.update(sft_batch(), plan=plan(*[1e-2] * 10), loss=SftLoss(), stop=None)
    after = learner.evaluate(sft_batch(), SftLoss())["sft/loss"].value
    assert before is not None
    assert after is not None
    assert after < before - 1.0


def test_learning_rate_zero_moves_no_weight_in_spite_of_weight_decay(llama: Path) -> None:
    learner = policy_learner(llama)
    before = weights_of(learner)
    learner.update(sft_batch(), plan=plan(0.0, 0.0), loss=SftLoss(), stop=None)
    assert all(torch.equal(weight, before[name]) for name, weight in learner.named_weights())


def test_a_step_with_nothing_to_train_on_is_skipped_and_counted(llama: Path) -> None:
    learner = policy_learner(llama)
    before = weights_of(learner)
    rule = StopRule(metric="sft/loss", above=0.0)
    result = learner.update(sft_batch(trained=[]), plan=plan(1.0, 1.0), loss=SftLoss(), stop=rule)
    assert result.optimizer_steps == 0
    assert result.stats == {"policy/skipped_steps": Sum(2.0)}
    assert all(torch.equal(weight, before[name]) for name, weight in learner.named_weights())


def test_a_gradient_that_is_not_finite_stops_before_the_step(llama: Path) -> None:
    learner = policy_learner(llama)
    before = weights_of(learner)
    batch = sft_batch()
    weights = batch.targets.weights.values.copy()
    weights[0] = np.inf
    bad = dataclasses.replace(batch, targets=SftTargets(weights=batch.targets.weights.like(weights)))
    with pytest.raises(DivergedError, match=r"gradient norm is (nan|inf) in epoch 0"):
        learner.update(bad, plan=plan(1e-3), loss=SftLoss(), stop=None)
    assert all(torch.equal(weight, before[name]) for name, weight in learner.named_weights())


def test_a_stop_rule_ends_the_update_at_an_epochs_end(llama: Path) -> None:
    batch = policy_batch(policy_learner(llama))
    rule = StopRule(metric="policy/approxkl_k3_avg", above=1e-9)
    steps = plan(1e-3, 1e-3, 1e-3, 1e-3)
    stopped = policy_learner(llama).update(batch, plan=steps, loss=PPO, stop=rule)
    assert (stopped.epochs, stopped.optimizer_steps) == (2, 2)  # the first epoch is read before any step: KL is 0
    never = dataclasses.replace(rule, above=1e9)
    assert policy_learner(llama).update(batch, plan=steps, loss=PPO, stop=never).epochs == 4


def test_gradients_are_clipped_to_the_norm_but_reported_before(llama: Path) -> None:
    model = load_language_model(llama, dtype=torch.float64)
    learner = TorchLearner(model, settings=dataclasses.replace(SETTINGS, max_grad_norm=0.01), metrics=METRICS)
    result = learner.update(sft_batch(), plan=plan(0.0), loss=SftLoss(), stop=None)
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3)
    reported = result.stats["policy/grad_norm"].value
    assert reported is not None
    assert reported > 0.1


def test_a_tied_head_is_optimised_once_and_stays_tied(tied_llama: Path) -> None:
    model = load_language_model(tied_llama, dtype=torch.float32)
    learner = TorchLearner(model, settings=SETTINGS, metrics=METRICS)
    before = weights_of(learner)
    learner.update(sft_batch(), plan=plan(1e-2), loss=SftLoss(), stop=None)
    after = dict(learner.named_weights())
    assert after["lm_head.weight"].data_ptr() == after["model.embed_tokens.weight"].data_ptr()
    moved = (after["lm_head.weight"] - before["lm_head.weight"]).abs().max().item()
    assert moved == pytest.approx(1e-2, rel=0.05)  # Adam's first step is the learning rate; twice if counted twice
