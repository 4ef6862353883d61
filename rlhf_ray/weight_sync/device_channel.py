"""GPU transports: vLLM's own trainer engines push, generators load; nothing passes through host memory.

There are no bytes to hash: names, shapes, order, version and completeness are checked, and the log-prob probe
(probe.py) stands in for the digest. Written after vLLM's documentation; no GPU was at hand to run it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from vllm.distributed.weight_transfer import (
    ParamMeta,
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
)

from rlhf_ray.errors import SyncError
from rlhf_ray.types import SyncReceipt, WeightManifest
from rlhf_ray.weight_sync.buckets import NamedTensors, TensorMeta, plan_buckets

# (which generator, its client, the weights) -> vLLM's trainer side, connected
OpenTrainer = Callable[[int, VLLMWeightSyncClient, WeightSource], TrainerWeightTransferEngine]


class DeviceReceiver(Protocol):
    """The part of a generator that a GPU transport talks to; calls block until they are done."""

    def connect(self, init_info: Mapping[str, Any]) -> None:
        """Join the trainer's group."""

    def begin_sync(self, manifest: WeightManifest) -> None:
        """Check what will come."""

    def receive_on_device(self, update_info: Mapping[str, Any]) -> None:
        """Load one chunk of tensors."""

    def finish_sync(self) -> SyncReceipt:
        """Put the weights in force."""


class LearnerWeights(WeightSource):  # type: ignore[misc]  # vLLM's classes are untyped here
    """The learner's tensors as vLLM's trainer engines want them."""

    def __init__(self, named_weights: Callable[[], NamedTensors]) -> None:
        self._named_weights = named_weights

    def metadata(self) -> list[ParamMeta]:
        """Name, dtype and shape of everything that iterating gives, in the same order."""
        return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._named_weights()]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return self._named_weights()


class VersionedClient:
    """One generator behind vLLM's client protocol.

    vLLM's trainer engines finish an update without a version; here the manifest handed to `announce` carries it.
    """

    def __init__(self, receiver: DeviceReceiver) -> None:
        self._receiver = receiver
        self._manifest: WeightManifest | None = None
        self._receipt: SyncReceipt | None = None

    def announce(self, manifest: WeightManifest) -> None:
        """What the next update will bring."""
        self._manifest, self._receipt = manifest, None

    def receipt(self) -> SyncReceipt:
        """The generator's confirmation. SyncError when the last update did not finish."""
        if self._receipt is None:
            raise SyncError("the trainer engine returned, but the generator has not confirmed the weights")
        return self._receipt

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """See VLLMWeightSyncClient."""
        self._receiver.connect(init_info)

    def start_weight_update(self) -> None:
        """See VLLMWeightSyncClient."""
        if self._manifest is None:
            raise SyncError("an update started that was not announced")
        self._receiver.begin_sync(self._manifest)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """See VLLMWeightSyncClient."""
        self._receiver.receive_on_device(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """See VLLMWeightSyncClient."""
        assert weight_version is None, "vLLM's trainer engines name no version"
        self._receipt = self._receiver.finish_sync()


class DeviceChannel:
    """WeightChannel over one vLLM trainer engine per generator. Use it on the learner's rank 0.

    After an error the transfer group is unusable (vLLM): close, and open a new channel.
    """

    def __init__(
        self,
        named_weights: Callable[[], NamedTensors],
        receivers: Sequence[DeviceReceiver],
        *,
        open_trainer: OpenTrainer,
    ) -> None:
        self._named_weights = named_weights
        source = LearnerWeights(named_weights)
        self._clients = [VersionedClient(receiver) for receiver in receivers]
        self._trainers = [open_trainer(index, client, source) for index, client in enumerate(self._clients)]

    def send(self, *, version: int) -> tuple[SyncReceipt, ...]:
        """See WeightChannel."""
        specs = ((name, TensorMeta.of(tensor)) for name, tensor in self._named_weights())
        manifest = plan_buckets(specs, version=version, bucket_bytes=1)  # a bucket a tensor: the layout is vLLM's
        for client, trainer in zip(self._clients, self._trainers, strict=True):
            client.announce(manifest)
            trainer.send_weights()
        return tuple(client.receipt() for client in self._clients)

    def close(self) -> None:
        """Leave the transfer groups."""
        for trainer in self._trainers:
            trainer.shutdown()
