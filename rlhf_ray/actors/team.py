"""The workers of one run, and who does what. The same code drives Ray actors and plain objects (see runtime.py)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.frozen_workers import ReferenceWorker, RewardWorker
from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote, Runtime
from rlhf_ray.actors.transport import Transport
from rlhf_ray.actors.worker import Span, Worker, busy_s
from rlhf_ray.errors import SyncError
from rlhf_ray.types import Completions, Last, Ragged, Ref, SampleRequest, Sampling, Stats, SyncReceipt
from rlhf_ray.weight_sync.probe import check_probe

MODEL_PHASES = ("generate", "score", "reference", "policy_logprobs", "values", "update")
PHASES = (*MODEL_PHASES, "estimate", "sync", "record")


@dataclass(frozen=True, kw_only=True)
class Workers:
    """One of each, and the generators."""

    data: Remote[DataWorker]
    policy: Remote[LearnerWorker]
    critic: Remote[LearnerWorker]
    reference: Remote[ReferenceWorker]
    reward: Remote[RewardWorker]
    generators: tuple[Remote[GeneratorWorker], ...]

    def all(self) -> list[Remote[Worker]]:
        """Every worker."""
        return [self.data, self.policy, self.critic, self.reference, self.reward, *self.generators]


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """After every sync each generator answers a few fixed prompts and the learner computes the same log-probs."""

    num_prompts: int
    max_new_tokens: int
    limit: float  # nats


class Team:
    """What all stages need: answers from the generators, weights to them, and the time everything took."""

    def __init__(
        self,
        runtime: Runtime,
        workers: Workers,
        *,
        transport: Transport,
        sampling: Sampling,
        probe: ProbeSettings,
    ) -> None:
        self.runtime = runtime
        self.workers = workers
        self.sampling = sampling
        self._transport = transport
        self._probe = probe
        self._clock_s = time.time()
        self._between: list[Span] = []
        self._probe_request: Ref[SampleRequest] | None = None  # the same at every sync

    def open_generators(self, model_path: Path) -> list[Ref[None]]:
        """Begin to start the engines for this architecture."""
        return [self.runtime.call(one, GeneratorWorker.open, model_path) for one in self.workers.generators]

    def answers(self, requests: Sequence[Ref[SampleRequest]], *, num_samples: int, version: int) -> Ref[Completions]:
        """All generators side by side, results in the order of the batch."""
        sampling = dataclasses.replace(self.sampling, num_samples=num_samples)
        parts = [
            self.runtime.call(generator, GeneratorWorker.generate, request, sampling, version)
            for generator, request in zip(self.workers.generators, requests, strict=True)
        ]
        if len(parts) == 1:  # the whole batch, in its order
            return parts[0]
        return self.runtime.call(self.workers.data, DataWorker.collect, *requests, *parts)

    def sync(self, version: int) -> Stats:
        """Send the policy's weights to every generator, require that all hold the same ones, then probe."""
        started_s = time.time()
        require_agreement(self._transport.send(version), version=version)
        gap = self._ask_probe(version)
        return {
            "sync/version": Last(float(version)),
            "sync/probe_gap": Last(gap),
            "sync/seconds": Last(time.time() - started_s),
        }

    def start_clock(self) -> None:
        """Forget what was done before; the time that checkpoints took since the last clock is told once more."""
        self._between = self._gather_spans()
        self._clock_s = time.time()

    def timings(self) -> Stats:
        """Seconds per phase since `start_clock`; orchestration = wall time in which no model computed."""
        wall_s = time.time() - self._clock_s
        spans = self._gather_spans()
        busy = busy_s(span for span in spans if span.phase in MODEL_PHASES)
        checkpoints = pick(self._between, "checkpoint")
        return {
            **({"time/checkpoint": Last(busy_s(checkpoints))} if checkpoints else {}),
            **{f"time/{name}": Last(busy_s(pick(spans, name))) for name in PHASES},
            "time/iteration": Last(wall_s),
            "time/idle": Last(max(0.0, wall_s - busy_s(spans))),
            "time/orchestration": Last(max(0.0, wall_s - busy)),
        }

    def close(self) -> None:
        """End the workers."""
        self.runtime.close()

    def _gather_spans(self) -> list[Span]:
        logs = self.runtime.gather([self.runtime.call(one, Worker.spans) for one in self.workers.all()])
        return [span for log in logs for span in log]

    def _ask_probe(self, version: int) -> float:
        """The largest log-prob gap of generator and learner, over all generators."""
        probe, call = self._probe, self.runtime.call
        sampling = dataclasses.replace(self.sampling, max_new_tokens=probe.max_new_tokens, num_samples=1)
        if self._probe_request is None:
            self._probe_request = call(self.workers.data, DataWorker.probe_request, probe.num_prompts)
        request = self._probe_request
        answers = [call(one, GeneratorWorker.generate, request, sampling, version) for one in self.workers.generators]
        learner = [call(self.workers.policy, LearnerWorker.logprobs, answer) for answer in answers]
        said: list[Completions] = self.runtime.gather(answers)
        known: list[Ragged] = self.runtime.gather(learner)
        return max(
            check_probe(answer.logprobs, logprobs, version=version, limit=probe.limit)
            for answer, logprobs in zip(said, known, strict=True)
        )


def require_agreement(receipts: Sequence[SyncReceipt], *, version: int) -> None:
    """Every generator confirms this version, and all of them received the same bytes."""
    digests = {receipt.digest for receipt in receipts}
    if len(digests) != 1 or any(receipt.version != version for receipt in receipts):
        confirmed = ", ".join(f"version {receipt.version} digest {receipt.digest[:12]}" for receipt in receipts)
        raise SyncError(f"the generators do not hold the same weights of version {version}: {confirmed}")


def pick(spans: Iterable[Span], phase: str) -> list[Span]:
    """The spans of one phase."""
    return [span for span in spans if span.phase == phase]


def learner_path(folder: Path, role: str) -> Path:
    """Where a learner's part of a checkpoint lies."""
    return folder / role
