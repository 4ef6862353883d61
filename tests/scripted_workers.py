"""Workers that answer at once with as many numbers as a real model would: for what happens around the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.types import (
    Completions,
    FinishReason,
    Mean,
    Minibatch,
    Prompts,
    Ragged,
    Rewards,
    SampleRequest,
    Sampling,
    SyncReceipt,
    TrainBatch,
    UpdateResult,
    ValueOutputs,
    WeightManifest,
)


def flat(offsets: np.ndarray, value: float) -> Ragged:
    """The same number for every token."""
    return Ragged(values=np.full(int(offsets[-1]), value, dtype=np.float32), offsets=offsets)


class ScriptedGenerator(Worker):
    """Answers every prompt with `max_new_tokens` tokens."""

    @phase("generate")
    def generate(self, request: SampleRequest, sampling: Sampling, version: int) -> Completions:
        """See Generator."""
        count, length = len(request.prompts.ids), sampling.max_new_tokens
        offsets = np.arange(count + 1, dtype=np.int64) * length
        return Completions(
            prompts=Prompts(ids=request.prompts.ids, texts=request.prompts.texts, tokens=request.prompts.tokens),
            tokens=Ragged(values=np.full(count * length, 7, dtype=np.int32), offsets=offsets),
            texts=tuple("good " * length for _ in range(count)),
            logprobs=flat(offsets, -1.0),
            finish_reasons=(FinishReason.LENGTH,) * count,
            versions=np.full((count, 2), version, dtype=np.int64),
        )

    def begin_sync(self, manifest: WeightManifest) -> None:
        """Take the version."""
        self._version = manifest.version

    def finish_sync(self) -> SyncReceipt:
        """Confirm it."""
        return SyncReceipt(version=self._version, digest="none")


class ScriptedModel(Worker):
    """Policy, critic, reference and reward model in one."""

    @phase("policy_logprobs")
    def logprobs(self, completions: Completions) -> Ragged:
        """-1 nat a token."""
        return flat(completions.tokens.offsets, -1.0)

    @phase("values")
    def values(self, completions: Completions) -> ValueOutputs[Ragged]:
        """0 everywhere."""
        rows = np.arange(len(completions.texts) + 1, dtype=np.int64)
        return ValueOutputs(values=flat(completions.tokens.offsets, 0.0), scores=flat(rows, 0.0))

    @phase("score")
    def score(self, completions: Completions) -> Rewards:
        """1, 0, 1, 0, .."""
        return Rewards(scores=(np.arange(len(completions.texts)) % 2).astype(np.float64), parts=())

    @phase("update")
    def update(self, batch: TrainBatch[Any], plan: Sequence[Minibatch], *_: object) -> UpdateResult:
        """Count the tokens."""
        tokens = float(len(batch.sequences.tokens.values))
        return UpdateResult(stats={"policy/grad_norm": Mean(tokens, 1.0)}, optimizer_steps=len(plan), epochs=1)

    def manifest(self, version: int) -> WeightManifest:
        """No weights at all."""
        return WeightManifest(version=version, tensors=(), bucket_bytes=())
