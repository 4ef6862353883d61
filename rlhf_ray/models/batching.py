"""Ragged rows to padded micro-batches under a token budget, and back.

Legend: B rows of the whole batch, b rows of one micro-batch, L its longest row, n its response tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlhf_ray.types import Ragged, Sequences

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Targets = TypeVar("Targets", bound="DataclassInstance")
PADDING_ID = 0  # any valid id: nothing reads what stands right of a row's end


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A few rows as one padded rectangle. A cell is row * L + column, an index into the flattened rectangle."""

    rows: NDArray[np.int64]  # [b] which rows of the batch, in the order of everything below
    input_ids: Tensor  # [b, L] int64, padded on the right
    predicting_cells: Tensor  # [n] the token before each response token: its hidden state predicts that token
    labels: Tensor  # [n] the response tokens
    last_cells: Tensor  # [b] each row's last token


def micro_batches(
    sequences: Sequences, *, rows: NDArray[np.int64], rows_per_group: int, max_tokens: int, device: torch.device
) -> Iterator[MicroBatch]:
    """All of `rows`, each once, rows of a group together, at most `max_tokens` cells a micro-batch."""
    for part in plan_micro_batches(
        sequences.tokens.lengths, rows=rows, rows_per_group=rows_per_group, max_tokens=max_tokens
    ):
        yield collate(sequences, rows=part, device=device)


def plan_micro_batches(
    lengths: NDArray[np.int64], *, rows: NDArray[np.int64], rows_per_group: int, max_tokens: int
) -> list[NDArray[np.int64]]:
    """Longest groups first, so that neighbours in a rectangle are of similar length and the peak of memory comes first.

    A group longer than the budget gets a micro-batch of its own.
    """
    assert len(rows) % rows_per_group == 0, f"{len(rows)} rows do not make whole groups of {rows_per_group}"
    if len(rows) == 0:
        return []
    groups = rows.reshape(-1, rows_per_group)
    longest = lengths[groups].max(axis=1)
    order = np.argsort(-longest, kind="stable")
    parts, start = [], 0
    while start < len(order):
        cells_per_group = int(longest[order[start]]) * rows_per_group
        count = max(1, max_tokens // cells_per_group)
        parts.append(groups[order[start : start + count]].reshape(-1))
        start += count
    return parts


def collate(sequences: Sequences, *, rows: NDArray[np.int64], device: torch.device) -> MicroBatch:
    """Lay rows out in a rectangle as wide as the longest of them."""
    lengths = sequences.tokens.lengths[rows]
    width = int(lengths.max())
    tokens = sequences.tokens.values[flat_positions(sequences.tokens.offsets, rows=rows)]
    row_starts = np.arange(len(rows)) * width
    columns = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    cells = np.repeat(row_starts, lengths) + columns
    in_response = columns >= np.repeat(sequences.prompt_lengths[rows], lengths)
    rectangle = np.full(len(rows) * width, PADDING_ID, dtype=np.int64)
    rectangle[cells] = tokens
    return MicroBatch(
        rows=rows,
        input_ids=torch.from_numpy(rectangle.reshape(len(rows), width)).to(device),
        predicting_cells=torch.from_numpy(cells[in_response] - 1).to(device),
        labels=torch.from_numpy(tokens[in_response].astype(np.int64)).to(device),
        last_cells=torch.from_numpy(row_starts + lengths - 1).to(device),
    )


def take_targets(targets: Targets, *, rows: NDArray[np.int64], device: torch.device) -> Targets:
    """The same record with each Ragged field as one flat tensor, the named rows end to end."""
    taken = {}
    for field in fields(targets):
        ragged = getattr(targets, field.name)
        assert isinstance(ragged, Ragged), f"{type(targets).__name__}.{field.name} is a {type(ragged).__name__}"
        # indexing copies, which arrays from the object store need: they are read-only
        taken[field.name] = torch.from_numpy(ragged.values[flat_positions(ragged.offsets, rows=rows)]).to(device)
    return type(targets)(**taken)


def flat_positions(offsets: NDArray[np.int64], *, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the elements of the named rows stand in the flat values, row after row."""
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    positions: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(
        starts - (np.cumsum(lengths) - lengths), lengths
    )
    return positions


def response_offsets(sequences: Sequences) -> NDArray[np.int64]:
    """[B + 1] offsets of the response tokens alone."""
    return np.concatenate([[0], np.cumsum(sequences.tokens.lengths - sequences.prompt_lengths)])


class RowCollector:
    """Puts flat results of micro-batches, which come in any order of rows, back into the batch's order."""

    def __init__(self, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        self._values: NDArray[np.generic] | None = None

    def add(self, values: Tensor, *, rows: NDArray[np.int64]) -> None:
        """Results of these rows, end to end."""
        array = values.detach().cpu().numpy()
        if self._values is None:
            self._values = np.zeros(self._offsets[-1], dtype=array.dtype)
        self._values[flat_positions(self._offsets, rows=rows)] = array

    def ragged(self) -> Ragged:
        """Everything added."""
        values = np.zeros(0, dtype=np.float32) if self._values is None else self._values
        return Ragged(values=values, offsets=self._offsets)
