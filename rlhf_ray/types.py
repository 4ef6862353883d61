"""Every message between the parts of the program. Data is inert: required fields, shapes in comments, no logic.

Legend: B rows (answers), N response tokens of the whole batch laid end to end (row after row), V vocabulary.
Batches are ragged: flat values plus row offsets. Nothing is padded until a model needs it, in the worker that computes.

Rollout stages, training, weight sync, and metrics that carry their weight, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

A = TypeVar("A")  # Ragged on the wire, torch.Tensor inside a loss
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Rows of different lengths in one flat array: row i is values[offsets[i]:offsets[i + 1]]."""

    values: NDArray[np.generic]  # [N]
    offsets: NDArray[np.int64]  # [B + 1], offsets[0] = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Row lengths, [B]."""
        return np.diff(self.offsets)

    def row(self, index: int) -> NDArray[np.generic]:
        """A view of one row."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def rows(self) -> list[NDArray[np.generic]]:
        """Views of all rows, in order."""
        return [self.row(i) for i in range(len(self))]

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> Ragged:
        """The named rows, in the order given (a copy)."""
        return Ragged.from_rows([self.row(int(i)) for i in indices], self.values.dtype)

    def like(self, values: NDArray[np.generic]) -> Ragged:
        """Other numbers on the same rows."""
        assert len(values) == len(self.values), "one value per element of every row"
        return Ragged(values=values, offsets=self.offsets)

    @staticmethod
    def from_rows(rows: Sequence[Sequence[int] | NDArray[np.generic]], dtype: DTypeLike) -> Ragged:
        """Lay rows end to end."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        parts = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
        return Ragged(values=values, offsets=offsets)

    @staticmethod
    def concat(parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, in order."""
        starts = np.cumsum([0] + [len(part.values) for part in parts])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        return Ragged(
            values=np.concatenate([part.values for part in parts]),
            offsets=np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
        )


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"  # the model produced one of its end tokens, which is the answer's last token
    LENGTH = "length"  # the token limit cut it


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What is asked. A row id is unique in its file and follows the row into metrics, records and checkpoints."""

    ids: tuple[str, ...]  # B
    texts: tuple[str, ...]  # B
    tokens: Ragged  # int32, never an empty row


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How answers are drawn. top-p and top-k stay off while training: log-probs would be renormalised."""

    temperature: float  # > 0; 0 only for greedy evaluation
    max_new_tokens: int
    eos_token_ids: tuple[int, ...]
    num_samples: int  # answers per prompt; the rows of one prompt stand side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """One generator's share of a batch."""

    prompts: Prompts
    seeds: NDArray[np.uint64]  # [prompts * num_samples], one per answer
    positions: NDArray[np.int64]  # [prompts], where each prompt stands in the whole batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """Answers, one row each; `prompts` is repeated per sample, so every field has B rows."""

    prompts: Prompts
    tokens: Ragged  # int32; the end token, where the model produced one, is the last
    texts: tuple[str, ...]  # decoded without special tokens
    logprobs: Ragged  # float32, of the sampled distribution (temperature applied), by the generator
    finish_reasons: tuple[FinishReason, ...]
    versions: NDArray[np.int64]  # [B, 2] first and last policy version that produced the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """One named component of a score."""

    name: str
    values: NDArray[np.float64]  # [B]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """Scores before any end-of-answer rule."""

    scores: NDArray[np.float64]  # [B]
    parts: tuple[RewardPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """What models read: prompt and response laid together. The response tokens are the ones outputs are made for."""

    tokens: Ragged  # int32, prompt + response
    prompt_lengths: NDArray[np.int64]  # [B], at least 1


def join(prompts: Ragged, responses: Ragged) -> Sequences:
    """Prompt and response of every row laid together."""
    rows = [np.concatenate(pair) for pair in zip(prompts.rows(), responses.rows(), strict=True)]
    return Sequences(tokens=Ragged.from_rows(rows, np.int32), prompt_lengths=prompts.lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """Answers with everything known about them; per-token numbers are aligned with completions.tokens."""

    completions: Completions
    rewards: Rewards
    logprobs: Ragged  # float32, recomputed by the policy learner: the old log-probs
    ref_logprobs: Ragged  # float32; the old log-probs where the reference is off
    values: Ragged  # float32, value[t] is read at the token before response token t
    end_values: NDArray[np.float64]  # [B], the critic's reading at the last token: of what follows


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutputs(Generic[A]):
    """What a language model says about each response token (logits divided by the temperature)."""

    logprobs: A  # [N]
    entropy: A  # [N], nats


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOutputs(Generic[A]):
    """What a scalar model says: a value before each response token and a score at the last token of each row."""

    values: A  # [N]
    scores: A  # [B] (on the wire: Ragged with one number a row)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftTargets(Generic[A]):
    """Supervised learning needs nothing beyond the tokens."""

    weights: A  # [N], 0 = not trained on


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTargets(Generic[A]):
    """What the policy loss compares with."""

    weights: A  # [N], 0 = not trained on; importance corrections and sequence-mean forms are folded in here
    old_logprobs: A  # [N]
    ref_logprobs: A  # [N]
    advantages: A  # [N]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTargets(Generic[A]):
    """What the value loss compares with."""

    weights: A  # [N], 0 = not trained on
    old_values: A  # [N]
    returns: A  # [N]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceTargets(Generic[A]):
    """Groups of K neighbouring answers to one prompt, compared all with all: each answer is read once for K-1 pairs.

    Within a group every pair with labels[i] > labels[j] is one comparison (i chosen, j rejected); equal labels make
    none. A plain chosen/rejected pair is a group of 2 with labels 1, 0. A row's row_count is the number of pairs
    in which it is the chosen one, so that the divisor of a step is its number of pairs.
    """

    labels: A  # [B], one number a row (on the wire: Ragged with one number a row), float32


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBatch(Generic[T]):
    """Rows a learner can train on. The loss of one optimizer step over rows S is sum(loss terms) / sum(row_counts[S]).

    Every rank can compute that divisor by itself, so the result does not depend on micro-batches, ranks or padding.
    """

    sequences: Sequences
    targets: T  # a targets record of Ragged fields
    row_counts: NDArray[np.float64]  # [B], what each row adds to the divisor (its trained tokens, for a token mean)
    rows_per_group: int  # neighbouring rows that one loss term needs together: 1, or K for preference groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """A whole PPO batch, ready to train on, and what was measured while it was made."""

    policy: TrainBatch[PolicyTargets[Ragged]]
    critic: TrainBatch[ValueTargets[Ragged]]
    stats: Stats


@dataclass(frozen=True, slots=True)
class Ref(Generic[T]):
    """A value that lies where it was made and may not be there yet. Loops pass refs on and never look inside."""

    label: str  # who makes it: role.method
    value: Any  # a Ray ObjectRef, or the value itself where all workers are in one process


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceRefs:
    """An Experience whose two batches go to two workers."""

    policy: Ref[TrainBatch[PolicyTargets[Ragged]]]
    critic: Ref[TrainBatch[ValueTargets[Ragged]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """One optimizer step: which rows of the batch, at what learning rate, in which epoch."""

    rows: NDArray[np.int64]
    learning_rate: float
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """End an update early, at an epoch's end, once the named metric's mean over that epoch is above the limit."""

    metric: str
    above: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What one update did."""

    stats: Stats
    optimizer_steps: int
    epochs: int  # begun; fewer than planned when a stop rule fired


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Where one tensor lies in the stream of buckets."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # torch name without the prefix: float32
    bucket: int
    offset: int  # bytes from the bucket's start
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightManifest:
    """Everything a receiver must end up with before it may be used."""

    version: int  # the policy step
    tensors: tuple[TensorSpec, ...]
    bucket_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A contiguous run of tensors. The digest is the sender's; the receiver hashes the bytes it got and compares."""

    version: int
    index: int
    data: NDArray[np.uint8]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReceipt:
    """A receiver's confirmation: these bytes arrived and are in force."""

    version: int
    digest: str  # over the bucket digests, in order, as hashed by the receiver


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that adds up over minibatches and ranks."""

    total: float
    count: float

    def merge(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.count + other.count)

    @property
    def value(self) -> float | None:
        """total / count; None when nothing was counted."""
        return self.total / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Sum:
    """A count or an amount."""

    value: float

    def merge(self, other: Sum) -> Sum:
        return Sum(self.value + other.value)


@dataclass(frozen=True, slots=True)
class Max:
    """The largest seen."""

    value: float

    def merge(self, other: Max) -> Max:
        return Max(max(self.value, other.value))


@dataclass(frozen=True, slots=True)
class Last:
    """A reading for which the newest counts (a learning rate, a coefficient); None means undefined."""

    value: float | None

    def merge(self, other: Last) -> Last:
        return other


@dataclass(frozen=True, slots=True)
class Histogram:
    """counts[i] values lie between edges[i] and edges[i + 1]. Shown, not recorded: no single number is its value."""

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    value: ClassVar[None] = None

    def merge(self, other: Histogram) -> Histogram:
        assert self.edges == other.edges, "distributions over other bins cannot be added"
        return Histogram(tuple(map(sum, zip(self.counts, other.counts, strict=True))), self.edges)


Stat = Mean | Sum | Max | Last | Histogram
Stats = dict[str, Stat]  # metric name (tracking/registry.py) -> reduction


def merge_stats(parts: Iterable[Stats]) -> Stats:
    """Combine the stats of several minibatches, epochs or ranks, each by its own rule."""
    merged: Stats = {}
    for part in parts:
        for name, stat in part.items():
            have = merged.get(name)
            if have is None:
                merged[name] = stat
            else:
                assert type(have) is type(stat), f"{name}: {type(have).__name__} merged with {type(stat).__name__}"
                merged[name] = have.merge(stat)  # type: ignore[arg-type]  # the assert above pairs the types
    return merged
