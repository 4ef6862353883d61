"""The rows that the supervised stages train on and are validated on: by name, a part of them at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.order import Rows
from rlhf_ray.types import Minibatch, Sequences, TrainBatch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
HANDED_TOKENS = 1 << 21  # that leave the data worker at once: about 16 MB with their targets


class RowSet(StrEnum):
    """What rows are for."""

    DEMONSTRATIONS = "demonstrations"
    HELD_OUT_DEMONSTRATIONS = "held_out_demonstrations"
    PREFERENCES = "preferences"
    HELD_OUT_PREFERENCES = "held_out_preferences"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSetSize:
    """All that is known of a row set where its rows are not."""

    num_rows: int
    group: int  # neighbouring rows that belong together
    divisor: float  # sum of all row counts: trained tokens, or pairs of answers that differ
    max_groups: int  # that leave the data worker at once

    @property
    def num_groups(self) -> int:
        """Groups that rows belong to."""
        return self.num_rows // self.group

    def pieces(self) -> Iterator[Rows]:
        """All rows in order, in pieces that may leave the data worker at once."""
        step = self.max_groups * self.group
        for start in range(0, self.num_rows, step):
            yield np.arange(start, min(start + step, self.num_rows), dtype=np.int64)


def size_of(batch: TrainBatch[Any]) -> RowSetSize:
    """A piece has at most HANDED_TOKENS, were all rows as long as the longest, but at least one group."""
    longest = int(batch.sequences.tokens.lengths.max(initial=1))
    return RowSetSize(
        num_rows=len(batch.row_counts),
        group=batch.rows_per_group,
        divisor=float(batch.row_counts.sum()),
        max_groups=max(1, HANDED_TOKENS // (longest * batch.rows_per_group)),
    )


def take_rows(batch: TrainBatch[T], rows: Sequence[int] | NDArray[np.int64]) -> TrainBatch[T]:
    """The named rows, whole groups of them, in the order given, in memory."""
    chosen = np.asarray(rows, dtype=np.int64)
    taken = {field.name: getattr(batch.targets, field.name).take(chosen) for field in dataclasses.fields(batch.targets)}
    return TrainBatch(
        sequences=Sequences(
            tokens=batch.sequences.tokens.take(chosen),
            prompt_lengths=np.asarray(batch.sequences.prompt_lengths[chosen]),
        ),
        targets=dataclasses.replace(batch.targets, **taken),
        row_counts=np.asarray(batch.row_counts[chosen]),
        rows_per_group=batch.rows_per_group,
    )


def over_named_rows(plan: Sequence[Minibatch]) -> tuple[Rows, list[Minibatch]]:
    """The rows that a plan names, each once, ascending, and the same plan over just these."""
    rows, places = np.unique(np.concatenate([step.rows for step in plan]), return_inverse=True)
    ends = np.cumsum([len(step.rows) for step in plan])[:-1]
    steps = zip(plan, np.split(places, ends), strict=True)
    return rows, [dataclasses.replace(step, rows=own) for step, own in steps]
