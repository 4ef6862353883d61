"""The protocol every learner backend follows. A learner knows models and losses, never the algorithm's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rlhf_ray.types import (
    Minibatch,
    PolicyOutputs,
    Ragged,
    Sequences,
    Stats,
    StopRule,
    TrainBatch,
    UpdateResult,
    ValueOutputs,
)

if TYPE_CHECKING:
    import torch

    from rlhf_ray.algorithms.losses import LossOutput

# (model outputs as tensors, targets as tensors) -> sum of loss terms and stats
Loss = Callable[..., "LossOutput"]


@dataclass(frozen=True, kw_only=True)
class Update:
    """How a batch is trained on."""

    plan: Sequence[Minibatch]
    loss: Loss
    stop: StopRule | None


class Learner(Protocol):
    """A model with its optimizer."""

    def forward(self, sequences: Sequences) -> PolicyOutputs[Ragged] | ValueOutputs[Ragged]:
        """Outputs for every response token, without gradients, dropout off, rows in order."""

    def evaluate(self, batch: TrainBatch[Any], loss: Loss) -> Stats:
        """The loss and its stats over all rows; changes nothing."""

    def update(
        self, batch: TrainBatch[Any], *, plan: Sequence[Minibatch], loss: Loss, stop: StopRule | None
    ) -> UpdateResult:
        """One optimizer step per minibatch of the plan, in order."""

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor a generator needs, by its Hugging Face name, tied heads spelled out."""

    def save(self, folder: Path) -> None:
        """Everything needed to continue to the same bits: master weights, optimizer moments, counters (safetensors)."""

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote."""
