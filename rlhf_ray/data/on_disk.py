"""Encoded rows that may be more than memory holds: appended to nameless files, read back through memory maps."""

from __future__ import annotations

import dataclasses
import tempfile
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from rlhf_ray.types import Ragged, Sequences, TrainBatch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class RaggedFile:
    """Rows of numbers. The file has no name, and is gone with the last reader."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the memory map that reads it
        self._lengths: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def append(self, rows: Ragged) -> None:
        """Write rows behind those that are there."""
        self._file.write(np.ascontiguousarray(rows.values, dtype=self._dtype).data)
        self._lengths.append(rows.lengths)

    def ragged(self) -> Ragged:
        """All rows; values stay in the file until they are read."""
        self._file.flush()
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), *self._lengths]).cumsum()
        if offsets[-1] == 0:
            return Ragged(values=np.zeros(0, dtype=self._dtype), offsets=offsets)
        return Ragged(values=np.memmap(self._file, dtype=self._dtype, mode="r"), offsets=offsets)


class BatchFile(Generic[T]):
    """One TrainBatch made from many of the same kind."""

    def __init__(self) -> None:
        self._tokens = RaggedFile(np.int32)
        self._targets: dict[str, RaggedFile] = {}
        self._parts: list[TrainBatch[T]] = []  # without their tokens and targets

    def append(self, batch: TrainBatch[T]) -> None:
        """Write the batch's rows behind those that are there."""
        self._tokens.append(batch.sequences.tokens)
        for field in dataclasses.fields(batch.targets):
            rows: Ragged = getattr(batch.targets, field.name)
            self._targets.setdefault(field.name, RaggedFile(rows.values.dtype)).append(rows)
        empty = Ragged.from_rows([], np.int32)
        light = Sequences(tokens=empty, prompt_lengths=batch.sequences.prompt_lengths)
        targets = dataclasses.replace(batch.targets, **dict.fromkeys(self._targets, empty))
        self._parts.append(dataclasses.replace(batch, sequences=light, targets=targets))

    def batch(self) -> TrainBatch[T]:
        """All rows in the order they came. Precondition: something was appended."""
        first = self._parts[0]
        assert all(part.rows_per_group == first.rows_per_group for part in self._parts), "groups of one size"
        return TrainBatch(
            sequences=Sequences(
                tokens=self._tokens.ragged(),
                prompt_lengths=np.concatenate([part.sequences.prompt_lengths for part in self._parts]),
            ),
            targets=dataclasses.replace(first.targets, **{name: file.ragged() for name, file in self._targets.items()}),
            row_counts=np.concatenate([part.row_counts for part in self._parts]),
            rows_per_group=first.rows_per_group,
        )
