"""A learner in a process of its own: the policy's, the critic's, and the reward model's while it is trained."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.learner.base import Learner, Loss
from rlhf_ray.learner.forward import over_known_ids
from rlhf_ray.learner.torch_learner import StepMetrics, TorchLearner, TorchSettings
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.models.save import save_language_model, save_scalar_model
from rlhf_ray.models.scalar_model import ScalarModel
from rlhf_ray.types import (
    Bucket,
    Completions,
    Minibatch,
    PolicyOutputs,
    Ragged,
    Stats,
    StopRule,
    SyncReceipt,
    TrainBatch,
    UpdateResult,
    ValueOutputs,
    WeightManifest,
    join,
)
from rlhf_ray.weight_sync.buckets import NamedTensors, WeightSender, torch_dtype
from rlhf_ray.weight_sync.channel import WeightChannel

if TYPE_CHECKING:  # imports vLLM
    from rlhf_ray.weight_sync.device_channel import DeviceReceiver


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How this worker's learner computes."""

    torch: TorchSettings
    bucket_bytes: int
    save_dtype: str  # torch name without the prefix
    threads: int


@dataclass(frozen=True, kw_only=True)
class ScalarStart:
    """Where a scalar model's head comes from: see load_scalar_model."""

    start: HeadStart
    head: str
    seed: int


class LearnerWorker(Worker):
    """One model with its optimizer; a new `open_*` replaces both."""

    def __init__(self, settings: LearnerSettings) -> None:
        super().__init__()
        torch.set_num_threads(settings.threads)
        self._settings = settings
        self._model: LanguageModel | ScalarModel | None = None
        self._learner: Learner | None = None
        self._sender: WeightSender | None = None
        self._channel: WeightChannel | None = None

    @phase("start")
    def open_policy(self, path: Path, metrics: StepMetrics) -> None:
        """A language model with a new optimizer."""
        settings = self._settings.torch
        known = over_known_ids(settings.distribution, path)
        self._open(load_language_model(path, dtype=torch.float32), replace(settings, distribution=known), metrics)

    @phase("start")
    def open_scalar(self, path: Path, start: ScalarStart, metrics: StepMetrics) -> None:
        """A reward model or critic with a new optimizer."""
        model = load_scalar_model(path, start=start.start, head=start.head, seed=start.seed, dtype=torch.float32)
        self._open(model, self._settings.torch, metrics)

    @phase("policy_logprobs")
    def logprobs(self, completions: Completions) -> Ragged:
        """Log-probs of the answers' tokens, as the policy says them now."""
        outputs = self._opened().forward(join(completions.prompts.tokens, completions.tokens))
        assert isinstance(outputs, PolicyOutputs)
        return outputs.logprobs

    @phase("values")
    def values(self, completions: Completions) -> ValueOutputs[Ragged]:
        """Values before the answers' tokens, and the value at the last token."""
        outputs = self._opened().forward(join(completions.prompts.tokens, completions.tokens))
        assert isinstance(outputs, ValueOutputs)
        return outputs

    @phase("score")
    def scores(self, batch: TrainBatch[Any]) -> Ragged:
        """The score of every row, one number a row."""
        outputs = self._opened().forward(batch.sequences)
        assert isinstance(outputs, ValueOutputs)
        return outputs.scores

    @phase("update")
    def update(
        self, batch: TrainBatch[Any], plan: Sequence[Minibatch], loss: Loss, stop: StopRule | None
    ) -> UpdateResult:
        """See Learner."""
        return self._opened().update(batch, plan=plan, loss=loss, stop=stop)

    @phase("evaluate")
    def evaluate(self, batch: TrainBatch[Any], loss: Loss) -> Stats:
        """See Learner."""
        return self._opened().evaluate(batch, loss)

    @phase("normalize")
    def normalize(self, mean: float, std: float) -> None:
        """See ScalarModel."""
        assert isinstance(self._model, ScalarModel)
        self._model.normalize(mean=mean, std=std)

    @phase("sync")
    def manifest(self, version: int) -> WeightManifest:
        """Begin to hand out weights under this version."""
        assert self._sender is not None
        return self._sender.manifest(version)

    @phase("sync")
    def bucket(self, index: int) -> Bucket:
        """One bucket of the weights announced by `manifest`."""
        assert self._sender is not None
        return self._sender.bucket(index)

    @phase("sync")
    def send_on_device(
        self, version: int, receivers: Sequence[DeviceReceiver], kind: str, ranks: int
    ) -> tuple[SyncReceipt, ...]:
        """Push the weights from GPU to GPU; the channel is opened once and again after an error."""
        if self._channel is None:
            self._channel = open_channel(kind, self._opened().named_weights, receivers, ranks=ranks)
        channel, self._channel = self._channel, None
        receipts = channel.send(version=version)
        self._channel = channel
        return receipts

    @phase("checkpoint")
    def export(self, folder: Path, tokenizer_source: Path) -> None:
        """Write an ordinary Hugging Face directory."""
        dtype = torch_dtype(self._settings.save_dtype)
        if isinstance(self._model, LanguageModel):
            save_language_model(self._model, folder, tokenizer_source=tokenizer_source, dtype=dtype)
        else:
            assert self._model is not None
            save_scalar_model(self._model, folder, tokenizer_source=tokenizer_source, dtype=dtype)

    @phase("checkpoint")
    def save(self, folder: Path) -> None:
        """See Learner."""
        folder.mkdir(parents=True, exist_ok=True)
        self._opened().save(folder)

    @phase("checkpoint")
    def load(self, folder: Path) -> None:
        """See Learner."""
        self._opened().load(folder)

    def _open(self, model: LanguageModel | ScalarModel, settings: TorchSettings, metrics: StepMetrics) -> None:
        self._model = model
        self._learner = TorchLearner(model, settings=settings, metrics=metrics)
        self._channel = None
        self._sender = WeightSender(self._learner.named_weights, bucket_bytes=self._settings.bucket_bytes)

    def _opened(self) -> Learner:
        assert self._learner is not None, "open a model first"
        return self._learner


def open_channel(
    kind: str, named_weights: Callable[[], NamedTensors], receivers: Sequence[DeviceReceiver], *, ranks: int
) -> WeightChannel:
    """Connect this process with the generators: `nccl` between GPUs, `ipc` on one."""
    if kind == "ipc":
        from rlhf_ray.weight_sync.ipc import ipc_channel  # noqa: PLC0415  vLLM only where it is used

        return ipc_channel(named_weights, receivers)
    from rlhf_ray.weight_sync.nccl import nccl_channel  # noqa: PLC0415  as above

    return nccl_channel(
        named_weights,
        receivers,
        address=socket.gethostbyname(socket.gethostname()),
        ports=free_ports(len(receivers)),
        ranks_per_receiver=ranks,
    )


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, on this node."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("", 0))
        return [int(item.getsockname()[1]) for item in sockets]
