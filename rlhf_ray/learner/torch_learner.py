"""The learner on plain PyTorch: one process, one device, AdamW, float32 master weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from rlhf_ray.algorithms.losses import ratio_stats
from rlhf_ray.errors import DivergedError
from rlhf_ray.learner.base import Loss
from rlhf_ray.learner.forward import TokenDistribution, policy_micro_batch, policy_outputs
from rlhf_ray.learner.state import load_state, save_state
from rlhf_ray.models.batching import MicroBatch, micro_batches, take_targets
from rlhf_ray.models.checkpointing import checkpoint_layers
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.models.scalar_forward import scalar_micro_batch, scalar_outputs
from rlhf_ray.models.scalar_model import ScalarModel
from rlhf_ray.types import (
    Last,
    Mean,
    Minibatch,
    PolicyOutputs,
    Ragged,
    Sequences,
    Stats,
    StopRule,
    Sum,
    TrainBatch,
    UpdateResult,
    ValueOutputs,
    merge_stats,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What an optimizer step's own metrics are called."""

    grad_norm: str  # policy/grad_norm; before clipping
    learning_rate: str  # lr
    skipped_steps: str  # policy/skipped_steps; steps that had nothing to train on


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSettings:
    """How a learner computes and optimises."""

    device: str
    max_tokens: int  # padded tokens per micro-batch
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    max_grad_norm: float
    checkpoint_layers: bool  # compute activations again on the way back instead of keeping them
    distribution: TokenDistribution  # scalar models have none and ignore it


class TorchLearner:
    """Follows learner/base.py. Changes to the model are visible to nobody until `named_weights` is read."""

    def __init__(self, model: LanguageModel | ScalarModel, *, settings: TorchSettings, metrics: StepMetrics) -> None:
        self._model = model.to(settings.device)
        self._settings = settings
        self._metrics = metrics
        if settings.checkpoint_layers:
            checkpoint_layers(model.causal if isinstance(model, LanguageModel) else model.classifier)
        self._parameters = list(self._model.parameters())
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=0.0,  # every step brings its own
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._outputs: Callable[[MicroBatch], PolicyOutputs[Tensor] | ValueOutputs[Tensor]]
        if isinstance(model, LanguageModel):
            self._outputs = partial(policy_micro_batch, model, distribution=settings.distribution)
        else:
            self._outputs = partial(scalar_micro_batch, model)

    def forward(self, sequences: Sequences) -> PolicyOutputs[Ragged] | ValueOutputs[Ragged]:
        """See Learner.forward."""
        max_tokens = self._settings.max_tokens
        if isinstance(self._model, LanguageModel):
            distribution = self._settings.distribution
            return policy_outputs(self._model, sequences, max_tokens=max_tokens, distribution=distribution)
        return scalar_outputs(self._model, sequences, max_tokens=max_tokens)

    @torch.no_grad()
    def evaluate(self, batch: TrainBatch[Any], loss: Loss) -> Stats:
        """See Learner.evaluate."""
        rows = np.arange(len(batch.sequences.tokens))
        return merge_stats(
            loss(self._outputs(micro_batch), targets).stats for micro_batch, targets in self._micro_batches(batch, rows)
        )

    def update(
        self, batch: TrainBatch[Any], *, plan: Sequence[Minibatch], loss: Loss, stop: StopRule | None
    ) -> UpdateResult:
        """See Learner.update. A step over rows that add nothing to the divisor is skipped and counted.

        Raises DivergedError before a step whose gradient is not finite.
        """
        stats: Stats = {}
        ratios: list[Tensor] = []
        num_steps = num_epochs = 0
        for _, steps in itertools.groupby(plan, key=lambda step: step.epoch):
            results = [self._step(batch, step, loss=loss) for step in steps]
            epoch_stats = merge_stats(result.stats for result in results)
            stats = merge_stats([stats, epoch_stats])
            ratios += [part for result in results for part in result.ratios]
            num_applied = sum(result.applied for result in results)
            num_steps += num_applied
            num_epochs += 1
            if stop is not None and num_applied and _is_above(epoch_stats, stop):
                break
        if ratios:
            stats |= ratio_stats(torch.cat(ratios))
        return UpdateResult(stats=stats, optimizer_steps=num_steps, epochs=num_epochs)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """See Learner.named_weights."""
        return self._model.named_weights()

    def save(self, folder: Path) -> None:
        """See Learner.save."""
        save_state(self._model, self._optimizer, folder)

    def load(self, folder: Path) -> None:
        """See Learner.load. Raises CheckpointError when the folder is incomplete or another model's."""
        load_state(self._model, self._optimizer, folder)

    def _step(self, batch: TrainBatch[Any], step: Minibatch, *, loss: Loss) -> _StepResult:
        """Gradient of sum(loss terms) / sum(row_counts), clipped, then AdamW."""
        names = self._metrics
        divisor = float(batch.row_counts[step.rows].sum())
        if divisor == 0:
            return _StepResult(applied=False, stats={names.skipped_steps: Sum(1.0)}, ratios=[])
        self._optimizer.zero_grad()
        stats: Stats = {}
        ratios: list[Tensor] = []
        for micro_batch, targets in self._micro_batches(batch, step.rows):
            output = loss(self._outputs(micro_batch), targets)
            (output.loss_sum / divisor).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            stats = merge_stats([stats, output.stats])
            ratios += [] if output.ratios is None else [output.ratios]
        grad_norm = self._apply(step)
        stats |= {
            names.grad_norm: Mean(grad_norm, 1.0),
            names.learning_rate: Last(step.learning_rate),
            names.skipped_steps: Sum(0.0),
        }
        return _StepResult(applied=True, stats=stats, ratios=ratios)

    def _apply(self, step: Minibatch) -> float:
        """One AdamW step on the accumulated gradient; gives the gradient's norm before clipping."""
        grad_norm = clip_grad_norm_(self._parameters, self._settings.max_grad_norm).item()
        if not math.isfinite(grad_norm):
            raise DivergedError(
                f"gradient norm is {grad_norm} in epoch {step.epoch} at learning rate {step.learning_rate}; "
                "the step was not applied: lower the learning rate or look for non-finite scores and values"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = step.learning_rate
        self._optimizer.step()
        return grad_norm

    def _micro_batches(self, batch: TrainBatch[Any], rows: NDArray[np.int64]) -> Iterator[tuple[MicroBatch, Any]]:
        device = self._model.device
        for micro_batch in micro_batches(
            batch.sequences,
            rows=rows,
            rows_per_group=batch.rows_per_group,
            max_tokens=self._settings.max_tokens,
            device=device,
        ):
            yield micro_batch, take_targets(batch.targets, rows=micro_batch.rows, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepResult:
    applied: bool
    stats: Stats
    ratios: list[Tensor]


def _is_above(stats: Stats, rule: StopRule) -> bool:
    """A mean over nothing stops nothing."""
    stat = stats[rule.metric]
    assert isinstance(stat, Mean), f"{rule.metric} is a {type(stat).__name__}; a stop rule needs a mean"
    return stat.value is not None and stat.value > rule.above
