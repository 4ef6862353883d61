"""Layout, skipped steps, continuation and the step-0 identities, on models small enough for float64."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlhf_ray.algorithms.losses import LossOutput, PolicyLoss, SftLoss, ValueLoss
from rlhf_ray.errors import CheckpointError, DivergedError
from rlhf_ray.learner.forward import TokenDistribution
from rlhf_ray.learner.torch_learner import StepMetrics, TorchLearner, TorchSettings
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.types import (
    Last,
    Mean,
    Minibatch,
    PolicyOutputs,
    PolicyTargets,
    Ragged,
    Sequences,
    SftTargets,
    StopRule,
    Sum,
    TrainBatch,
    ValueOutputs,
    ValueTargets,
)

EOS = 2
PROMPTS = [[5, 9, EOS, 40], [1], [40, 41], [7, 7, 7, 7, 7, 7], [3, 4]]
RESPONSES = [[33, 20, EOS], [2, 60, 10, 11, 12], [43, EOS], [8], [50, 51, 52, 53, 54, 55, 56, EOS]]
SEQUENCES = Sequences(
    tokens=Ragged.from_rows([p + r for p, r in zip(PROMPTS, RESPONSES, strict=True)], np.int32),
    prompt_lengths=np.array([len(prompt) for prompt in PROMPTS]),
)
LAYOUTS = {"one row": 1, "two rows": 20, "all rows": 1000}
PPO = PolicyLoss(clip_low=0.2, clip_high=0.2, dual_clip=None, entropy_coef=0.01, kl_coef=0.0, kl_estimator="k1")
SETTINGS = TorchSettings(
    device="cpu",
    max_tokens=1000,
    betas=(0.9, 0.999),
    eps=1e-5,
    weight_decay=0.01,
    max_grad_norm=1.0,
    distribution=TokenDistribution(temperature=0.7, num_token_ids=None, chunk_tokens=4),
    metrics=StepMetrics(grad_norm="policy/grad_norm", learning_rate="lr", skipped_steps="policy/skipped_steps"),
)


def policy_learner(
    path: Path, *, dtype: torch.dtype = torch.float32, temperature: float = 0.7, **settings: Any
) -> TorchLearner:
    distribution = TokenDistribution(temperature=temperature, num_token_ids=None, chunk_tokens=4)
    chosen = dataclasses.replace(SETTINGS, distribution=distribution, **settings)
    return TorchLearner(load_language_model(path, dtype=dtype), settings=chosen)


def sft_batch(*, trained: list[int] | None = None) -> TrainBatch[SftTargets[Ragged]]:
    """All rows; response tokens of the rows in `trained` count (None: of all)."""
    rows = range(len(RESPONSES)) if trained is None else trained
    weights = [np.full(len(response), float(i in rows)) for i, response in enumerate(RESPONSES)]
    return TrainBatch(
        sequences=SEQUENCES,
        targets=SftTargets(weights=Ragged.from_rows(weights, np.float32)),
        row_counts=np.array([row.sum() for row in weights]),
        rows_per_group=1,
    )


def policy_batch(learner: TorchLearner) -> TrainBatch[PolicyTargets[Ragged]]:
    """Old and reference log-probs from the learner itself; advantages of both signs."""
    outputs = learner.forward(SEQUENCES)
    assert isinstance(outputs, PolicyOutputs)
    logprobs = outputs.logprobs
    ones = np.ones_like(logprobs.values)
    return TrainBatch(
        sequences=SEQUENCES,
        targets=PolicyTargets(
            weights=logprobs.like(ones),
            old_logprobs=logprobs,
            ref_logprobs=logprobs,
            advantages=logprobs.like(np.where(np.arange(len(ones)) % 3 == 0, -1.0, 1.0).astype(ones.dtype)),
        ),
        row_counts=logprobs.lengths.astype(np.float64),
        rows_per_group=1,
    )


def plan(*learning_rates: float, rows: NDArray[np.int64] | None = None) -> list[Minibatch]:
    """One step an epoch."""
    chosen = np.arange(len(RESPONSES)) if rows is None else rows
    return [Minibatch(rows=chosen, learning_rate=rate, epoch=i) for i, rate in enumerate(learning_rates)]


def weights_of(learner: TorchLearner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.named_weights()}


# -------------------------------------------------------------------------------------------------- forward


@pytest.mark.parametrize("family", ["llama", "tied_llama", "gpt2"])
def test_logprobs_are_those_of_each_row_alone_at_the_temperature(family: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(family)
    outputs = policy_learner(path).forward(SEQUENCES)
    assert isinstance(outputs, PolicyOutputs)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path).eval()
    for i, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1] / 0.7
        expected = logits.log_softmax(-1)
        chosen = expected[torch.arange(len(response)), torch.tensor(response)]
        np.testing.assert_allclose(outputs.logprobs.row(i), chosen.numpy(), rtol=0, atol=1e-5)
        entropy = -(expected.exp() * expected).sum(-1)
        np.testing.assert_allclose(outputs.entropy.row(i), entropy.numpy(), rtol=0, atol=1e-5)


def test_embedding_rows_beyond_the_tokenizer_get_no_probability(llama: Path) -> None:
    distribution = TokenDistribution(temperature=1.0, num_token_ids=61, chunk_tokens=100)
    learner = policy_learner(llama)
    limited = TorchLearner(
        load_language_model(llama, dtype=torch.float32),
        settings=dataclasses.replace(SETTINGS, distribution=distribution),
    )
    assert (limited.forward(SEQUENCES).entropy.values <= np.log(61) + 1e-5).all()
    assert learner.forward(SEQUENCES).entropy.values.max() > np.log(61)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("max_tokens", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_step_zero_identities_hold_in_every_layout_and_epoch(
    family: str, max_tokens: int, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(family)
    batch = policy_batch(policy_learner(path, dtype=torch.float64))
    learner = policy_learner(path, dtype=torch.float64, max_tokens=max_tokens)
    result = learner.update(batch, plan=plan(0.0, 0.0), loss=PPO, stop=None)
    stats = {name: stat.value for name, stat in result.stats.items()}
    assert stats["val/ratio"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/ratio_max"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/ratio_p05"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/approxkl_avg"] == pytest.approx(0.0, abs=1e-6)
    assert stats["policy/clipfrac_avg"] == 0.0
    assert (result.optimizer_steps, result.epochs) == (2, 2)


# ---------------------------------------------------------------------------------------------------- layout

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
        model, settings=dataclasses.replace(SETTINGS, max_tokens=max_tokens, max_grad_norm=float("inf"))
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


def test_each_answer_alone_adds_its_share_of_the_padded_batch(llama: Path) -> None:
    learner = policy_learner(llama, dtype=torch.float64)
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


# ----------------------------------------------------------------------------------------------------- steps


def test_the_final_end_token_keeps_its_gradient_and_padding_has_none(llama: Path) -> None:
    model = load_language_model(llama, dtype=torch.float64)
    TorchLearner(model, settings=SETTINGS).update(
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
    learner = TorchLearner(model, settings=dataclasses.replace(SETTINGS, max_grad_norm=0.01))
    result = learner.update(sft_batch(), plan=plan(0.0), loss=SftLoss(), stop=None)
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3)
    reported = result.stats["policy/grad_norm"].value
    assert reported is not None
    assert reported > 0.1


# ------------------------------------------------------------------------------------------------ tied, critic, state


def test_a_tied_head_is_optimised_once_and_stays_tied(tied_llama: Path) -> None:
    model = load_language_model(tied_llama, dtype=torch.float32)
    learner = TorchLearner(model, settings=SETTINGS)
    before = weights_of(learner)
    learner.update(sft_batch(), plan=plan(1e-2), loss=SftLoss(), stop=None)
    after = dict(learner.named_weights())
    assert after["lm_head.weight"].data_ptr() == after["model.embed_tokens.weight"].data_ptr()
    moved = (after["lm_head.weight"] - before["lm_head.weight"]).abs().max().item()
    assert moved == pytest.approx(1e-2, rel=0.05)  # Adam's first step is the learning rate; twice if counted twice


def value_batch(learner: TorchLearner) -> TrainBatch[ValueTargets[Ragged]]:
    outputs = learner.forward(SEQUENCES)
    assert isinstance(outputs, ValueOutputs)
    ones = np.ones_like(outputs.values.values)
    return TrainBatch(
        sequences=SEQUENCES,
        targets=ValueTargets(
            weights=outputs.values.like(ones),
            old_values=outputs.values,
            returns=outputs.values.like(outputs.values.values + 2),
        ),
        row_counts=outputs.values.lengths.astype(np.float64),
        rows_per_group=1,
    )


def critic_learner(path: Path, *, max_tokens: int = 1000) -> TorchLearner:
    model = load_scalar_model(path, start=HeadStart.RANDOM, head="score", seed=0, dtype=torch.float64)
    model.normalize(mean=0.3, std=2.0)
    return TorchLearner(model, settings=dataclasses.replace(SETTINGS, max_tokens=max_tokens))


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


@pytest.mark.parametrize("family", ["llama", "tied_llama"])
def test_one_step_save_load_and_two_more_equal_three_to_the_bit(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = request.getfixturevalue(family)
    rates = (1e-2, 5e-3, 1e-3)
    straight = policy_learner(path)
    straight.update(sft_batch(), plan=plan(*rates), loss=SftLoss(), stop=None)
    first = policy_learner(path)
    first.update(sft_batch(), plan=plan(*rates[:1]), loss=SftLoss(), stop=None)
    first.save(tmp_path / "saved")
    resumed = policy_learner(path)
    resumed.update(sft_batch(), plan=plan(0.1), loss=SftLoss(), stop=None)  # must leave no trace
    resumed.load(tmp_path / "saved")
    resumed.update(sft_batch(), plan=plan(*rates[1:]), loss=SftLoss(), stop=None)
    assert all(torch.equal(weight, dict(straight.named_weights())[name]) for name, weight in resumed.named_weights())


def test_a_critic_and_a_learner_that_never_stepped_are_saved_whole(llama: Path, tmp_path: Path) -> None:
    critic = critic_learner(llama)
    critic.save(tmp_path / "critic")
    other = TorchLearner(
        load_scalar_model(llama, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float64), settings=SETTINGS
    )
    other.load(tmp_path / "critic")
    ours, theirs = critic.forward(SEQUENCES), other.forward(SEQUENCES)
    assert isinstance(ours, ValueOutputs)
    assert isinstance(theirs, ValueOutputs)
    assert np.array_equal(ours.values.values, theirs.values.values)


def test_a_checkpoint_of_another_model_or_with_a_missing_file_is_refused(
    llama: Path, gpt2: Path, tmp_path: Path
) -> None:
    learner = policy_learner(llama)
    learner.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="belongs to another model"):
        policy_learner(gpt2).load(tmp_path / "saved")
    (tmp_path / "saved" / "optimizer.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors is missing"):
        learner.load(tmp_path / "saved")
    (tmp_path / "saved" / "weights.safetensors").write_bytes(b"short")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is damaged"):
        learner.load(tmp_path / "saved")
