"""When a loop writes a checkpoint, and what it hands over. The store itself is checkpoint/store.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.checkpoint.store import CheckpointStore


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """A stage's checkpoints."""

    store: CheckpointStore
    every: int
    rows: Mapping[str, int]  # what became of the data's rows; part of every checkpoint's state

    def due(self, step: int) -> bool:
        """Whether the period is over."""
        return step % self.every == 0

    def write(self, step: int, *, save: Callable[[Path], None], state: dict[str, float | int]) -> None:
        """Let the workers write their parts, then make the checkpoint the latest one, in one step."""
        folder = self.store.begin(step)
        try:
            save(folder)
        except BaseException:
            self.store.abandon(step)
            raise
        self.store.commit(step, state={**state, "rows": dict(self.rows)})
