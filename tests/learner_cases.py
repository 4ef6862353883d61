"""Five short answers, batches made of them, and learners on small models."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlhf_ray.algorithms.losses import PolicyLoss
from rlhf_ray.learner.forward import TokenDistribution
from rlhf_ray.learner.torch_learner import StepMetrics, TorchLearner, TorchSettings
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.types import (
    Minibatch,
    PolicyOutputs,
    PolicyTargets,
    Ragged,
    Sequences,
    SftTargets,
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
    checkpoint_layers=False,
    distribution=TokenDistribution(temperature=0.7, num_token_ids=None, chunk_tokens=4),
)
METRICS = StepMetrics(grad_norm="policy/grad_norm", learning_rate="lr", skipped_steps="policy/skipped_steps")


def policy_learner(
    path: Path, *, dtype: torch.dtype = torch.float32, temperature: float = 0.7, **settings: Any
) -> TorchLearner:
    distribution = TokenDistribution(temperature=temperature, num_token_ids=None, chunk_tokens=4)
    chosen = dataclasses.replace(SETTINGS, distribution=distribution, **settings)
    return TorchLearner(load_language_model(path, dtype=dtype), settings=chosen, metrics=METRICS)


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
    return TorchLearner(model, settings=dataclasses.replace(SETTINGS, max_tokens=max_tokens), metrics=METRICS)
