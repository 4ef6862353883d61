"""All prompts of a run: ids, texts and tokens lie in files, and only those that are asked for are read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rlhf_ray.data.on_disk import RaggedFile, TextFile, Texts
from rlhf_ray.data.order import Rows
from rlhf_ray.types import Prompts, Ragged


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTable:
    """Prompts by row."""

    ids: Texts
    texts: Texts
    tokens: Ragged  # int32

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | Rows) -> Prompts:
        """The named prompts, in the order given."""
        return Prompts(ids=self.ids.take(rows), texts=self.texts.take(rows), tokens=self.tokens.take(rows))


class PromptFile:
    """A PromptTable in the making."""

    def __init__(self) -> None:
        self._ids, self._texts, self._tokens = TextFile(), TextFile(), RaggedFile(np.int32)

    def append(self, prompts: Prompts) -> None:
        """Write prompts behind those that are there."""
        self._ids.append(prompts.ids)
        self._texts.append(prompts.texts)
        self._tokens.append(prompts.tokens)

    def table(self) -> PromptTable:
        """All prompts in the order they came."""
        return PromptTable(ids=self._ids.texts(), texts=self._texts.texts(), tokens=self._tokens.ragged())


def prompt_table(parts: Iterable[Prompts]) -> PromptTable:
    """The prompts of all parts, in order."""
    file = PromptFile()
    for part in parts:
        file.append(part)
    return file.table()


class RowIndex:
    """Where an id stands. Checksums and rows are in memory, 12 bytes an id; the ids themselves stay in their file."""

    def __init__(self, ids: Texts) -> None:
        checksums = (zlib.crc32(row_id.encode()) for piece in ids.pieces() for row_id in piece)
        unsorted = np.fromiter(checksums, dtype=np.uint32, count=len(ids))
        self._ids = ids
        self._rows = np.argsort(unsorted, kind="stable")
        self._checksums = unsorted[self._rows]

    def row(self, row_id: str) -> int:
        """The row of this id. KeyError where there is none."""
        checksum = np.uint32(zlib.crc32(row_id.encode()))
        first, end = (np.searchsorted(self._checksums, checksum, side=side) for side in ("left", "right"))
        for row in self._rows[first:end]:
            if self._ids.take([row]) == (row_id,):
                return int(row)
        raise KeyError(row_id)
