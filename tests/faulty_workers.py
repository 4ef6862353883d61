"""Workers that do what the real ones do until told to misbehave: the faults happen between worker and team."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.learner_worker import LearnerSettings, LearnerWorker
from rlhf_ray.actors.local_runtime import LocalRuntime
from rlhf_ray.actors.ray_runtime import RayRuntime
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.worker import Worker
from rlhf_ray.generation.settings import HfSettings, VllmSettings
from rlhf_ray.types import Bucket, Completions, Ragged, WeightManifest

SMALL_BUCKET = 100_000  # bytes: several buckets even for a tiny model
SLEEP_S = 5.0


class SmallBucketsLearner(LearnerWorker):
    """Sends many buckets, and can say log-probs that are off, as with dropout left on."""

    def __init__(self, settings: LearnerSettings) -> None:
        super().__init__(dataclasses.replace(settings, bucket_bytes=SMALL_BUCKET))
        self._shift = 0.0

    def shift_logprobs(self, nats: float) -> None:
        """Answers of `logprobs` are off by this much from now on."""
        self._shift = nats

    def logprobs(self, completions: Completions) -> Ragged:
        """See LearnerWorker."""
        true = super().logprobs(completions)
        return true.like((true.values + np.float32(self._shift)).astype(np.float32))


class FaultyGenerator(GeneratorWorker):
    """A real generator behind a channel that damages what it is sent."""

    def __init__(self, settings: HfSettings | VllmSettings) -> None:
        super().__init__(settings)
        self._fault = ""

    def misbehave(self, fault: str) -> None:
        """What goes wrong with the next syncs; empty: nothing."""
        self._fault = fault

    def begin_sync(self, manifest: WeightManifest) -> None:
        """See GeneratorWorker."""
        super().begin_sync(damaged_manifest(manifest, self._fault))

    def receive(self, bucket: Bucket) -> None:
        """See GeneratorWorker."""
        if bucket.index == 1 and self._fault == "raises midway":
            raise RuntimeError("the cable is loose")
        if bucket.index == 1 and self._fault == "sleeps":
            time.sleep(SLEEP_S)
        if bucket.index == 1 and self._fault == "flipped byte":
            data = bucket.data.copy()
            data[17] ^= 1
            bucket = dataclasses.replace(bucket, data=data)
        if not (bucket.index == 1 and self._fault == "lost bucket"):
            super().receive(bucket)


def damaged_manifest(manifest: WeightManifest, fault: str) -> WeightManifest:
    """The manifest after its way through a bad channel."""
    tensors = list(manifest.tensors)
    place = next(i for i, spec in enumerate(tensors) if spec.name.endswith("0.self_attn.k_proj.weight"))
    match fault:
        case "dropped name":
            del tensors[place]
        case "extra name":
            tensors.append(dataclasses.replace(tensors[place], name="model.layers.9.self_attn.k_proj.weight"))
        case "wrong shape":
            rows, columns = tensors[place].shape
            tensors[place] = dataclasses.replace(tensors[place], shape=(rows * 2, columns // 2))
    return dataclasses.replace(manifest, tensors=tuple(tensors))


KINDS: dict[type[Worker], type[Worker]] = {LearnerWorker: SmallBucketsLearner, GeneratorWorker: FaultyGenerator}


class FaultyRayRuntime(RayRuntime):
    """Starts the workers of this file."""

    def start(self, role: str, kind: type[Worker], *args: object) -> Remote[Worker]:
        """See Runtime."""
        return super().start(role, KINDS.get(kind, kind), *args)


class FaultyLocalRuntime(LocalRuntime):
    """Starts the workers of this file."""

    def start(self, role: str, kind: type[Worker], *args: object) -> Remote[Worker]:
        """See Runtime."""
        return super().start(role, KINDS.get(kind, kind), *args)
