"""How a sync gets the policy's weights to the generators: through Ray's object store, or from GPU to GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import ray

from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote, Runtime
from rlhf_ray.types import Ref, SyncReceipt, WeightManifest

BUCKETS_IN_FLIGHT = 2
Generators = Sequence[Remote[GeneratorWorker]]


class Transport(Protocol):
    """Sends the learner's current weights to every generator."""

    def send(self, version: int) -> list[SyncReceipt]:
        """Each generator's confirmation, in order. SyncError when one cannot confirm; sending again heals it."""


class ObjectStoreTransport:
    """Buckets through the object store; works for any placement and in one process."""

    def __init__(self, runtime: Runtime, policy: Remote[LearnerWorker], generators: Generators) -> None:
        self._runtime = runtime
        self._policy = policy
        self._generators = generators

    def send(self, version: int) -> list[SyncReceipt]:
        """See Transport. Bucket k loads while k + 1 is written; at most BUCKETS_IN_FLIGHT are in memory."""
        call, gather = self._runtime.call, self._runtime.gather
        manifest: WeightManifest = gather([call(self._policy, LearnerWorker.manifest, version)])[0]
        in_flight: list[Ref[Any]] = [call(one, GeneratorWorker.begin_sync, manifest) for one in self._generators]
        window = BUCKETS_IN_FLIGHT * len(self._generators)
        for index in range(len(manifest.bucket_bytes)):
            bucket = call(self._policy, LearnerWorker.bucket, index)
            in_flight += [call(one, GeneratorWorker.receive, bucket) for one in self._generators]
            gather(in_flight[:-window])
            in_flight = in_flight[-window:]
        in_flight += [call(one, GeneratorWorker.finish_sync) for one in self._generators]
        receipts: list[SyncReceipt] = gather(in_flight)[-len(self._generators) :]
        return receipts


class DeviceTransport:
    """vLLM's own GPU transports: the learner's process pushes, and calls the generators' actors itself.

    `kind` is nccl (different GPUs) or ipc (the same one). Not run here: no GPU was at hand; see tests/gpu.
    """

    def __init__(
        self, runtime: Runtime, policy: Remote[LearnerWorker], generators: Generators, *, kind: str, ranks: int
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._receivers = [RemoteReceiver(one.handle) for one in generators]
        self._kind = kind
        self._ranks = ranks

    def send(self, version: int) -> list[SyncReceipt]:
        """See Transport."""
        sent = self._runtime.call(
            self._policy, LearnerWorker.send_on_device, version, self._receivers, self._kind, self._ranks
        )
        receipts: list[SyncReceipt] = list(self._runtime.gather([sent])[0])
        return receipts


class RemoteReceiver:
    """A generator's actor as weight_sync's DeviceReceiver, used inside the learner's process."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def connect(self, init_info: Mapping[str, Any]) -> None:
        """See DeviceReceiver."""
        ray.get(self._handle.run.remote("connect", dict(init_info)))

    def begin_sync(self, manifest: WeightManifest) -> None:
        """See DeviceReceiver."""
        ray.get(self._handle.run.remote("begin_sync", manifest))

    def receive_on_device(self, update_info: Mapping[str, Any]) -> None:
        """See DeviceReceiver."""
        ray.get(self._handle.run.remote("receive_on_device", dict(update_info)))

    def finish_sync(self) -> SyncReceipt:
        """See DeviceReceiver."""
        receipt: SyncReceipt = ray.get(self._handle.run.remote("finish_sync"))
        return receipt
