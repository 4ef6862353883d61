"""Rows that may be more than memory holds: appended to nameless files, read back through memory maps."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlhf_ray.types import Ragged, Sequences, TrainBatch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
PIECE_TEXTS = 2048  # that are in memory at once


class NumberFile:
    """One array. The file has no name, and is gone with the last reader."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the memory map that reads it
        self._is_empty = True

    def append(self, values: NDArray[np.generic]) -> None:
        """Write numbers behind those that are there."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._is_empty = self._is_empty and len(values) == 0

    def array(self) -> NDArray[Any]:
        """All numbers, read-only; they stay in the file until they are read."""
        self._file.flush()
        if self._is_empty:  # a map needs something to map
            return np.zeros(0, dtype=self._dtype)
        return np.memmap(self._file, dtype=self._dtype, mode="r")


class RaggedFile:
    """Rows of numbers."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._values, self._offsets = NumberFile(dtype), NumberFile(np.int64)
        self._offsets.append(np.zeros(1))
        self._end = 0

    def append(self, rows: Ragged) -> None:
        """Write rows behind those that are there."""
        self._values.append(rows.values)
        self._offsets.append(rows.offsets[1:] + self._end)
        self._end += len(rows.values)

    def ragged(self) -> Ragged:
        """All rows."""
        return Ragged(values=self._values.array(), offsets=self._offsets.array())


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts that lie in a file."""

    utf8: Ragged  # uint8

    def __len__(self) -> int:
        return len(self.utf8)

    def take(self, rows: Sequence[int] | NDArray[np.int64] | range) -> tuple[str, ...]:
        """The named texts, in the order given."""
        return tuple(self.utf8.row(int(row)).tobytes().decode() for row in rows)

    def pieces(self) -> Iterator[tuple[str, ...]]:
        """All texts in order, some at a time."""
        for start in range(0, len(self), PIECE_TEXTS):
            yield self.take(range(start, min(start + PIECE_TEXTS, len(self))))


class TextFile:
    """Texts."""

    def __init__(self) -> None:
        self._utf8 = RaggedFile(np.uint8)

    def append(self, texts: Sequence[str]) -> None:
        """Write texts behind those that are there."""
        self._utf8.append(Ragged.from_rows([np.frombuffer(text.encode(), dtype=np.uint8) for text in texts], np.uint8))

    def texts(self) -> Texts:
        """All texts."""
        return Texts(self._utf8.ragged())


class BatchFile(Generic[T]):
    """One TrainBatch made from many of the same kind."""

    def __init__(self) -> None:
        self._tokens = RaggedFile(np.int32)
        self._prompt_lengths, self._row_counts = NumberFile(np.int64), NumberFile(np.float64)
        self._targets: dict[str, RaggedFile] = {}
        self._kind: tuple[type[T], int] | None = None  # of targets, and rows per group

    def append(self, batch: TrainBatch[T]) -> None:
        """Write the batch's rows behind those that are there."""
        kind = (type(batch.targets), batch.rows_per_group)
        assert self._kind in (None, kind), f"{kind} behind {self._kind}"
        self._kind = kind
        self._tokens.append(batch.sequences.tokens)
        self._prompt_lengths.append(batch.sequences.prompt_lengths)
        self._row_counts.append(batch.row_counts)
        for field in dataclasses.fields(batch.targets):
            rows: Ragged = getattr(batch.targets, field.name)
            self._targets.setdefault(field.name, RaggedFile(rows.values.dtype)).append(rows)

    def batch(self) -> TrainBatch[T]:
        """All rows in the order they came. Precondition: something was appended."""
        assert self._kind is not None, "a batch of nothing has no kind"
        targets, rows_per_group = self._kind
        return TrainBatch(
            sequences=Sequences(tokens=self._tokens.ragged(), prompt_lengths=self._prompt_lengths.array()),
            targets=targets(**{name: file.ragged() for name, file in self._targets.items()}),
            row_counts=self._row_counts.array(),
            rows_per_group=rows_per_group,
        )


def on_disk(batch: TrainBatch[T]) -> TrainBatch[T]:
    """The same rows in files."""
    file: BatchFile[T] = BatchFile()
    file.append(batch)
    return file.batch()
