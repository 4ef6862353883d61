"""What every stage is given: the team, the configuration, the records, and where results lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.pipeline.start import Opened
from rlhf_ray.tracking.progress import Display
from rlhf_ray.tracking.records import RunRecords
from rlhf_ray.tracking.values import reduce_stats
from rlhf_ray.types import Stats


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run."""

    config: TrainConfig
    run_dir: Path
    opened: Opened
    records: RunRecords
    display: Display

    def notes(self) -> tuple[str, ...]:
        """What reading the data dropped."""
        runtime = self.opened.team.runtime
        notes: tuple[str, ...] = runtime.gather([runtime.call(self.opened.team.workers.data, DataWorker.notes)])[0]
        return notes

    def artifact(self, name: str) -> Path:
        """Where a stage's result lies."""
        return self.run_dir / "artifacts" / name

    def checkpoints(self, stage: str, *, every: int, parts: tuple[str, ...]) -> Checkpoints:
        """A stage's checkpoints."""
        root = self.run_dir / "checkpoints" / stage
        return Checkpoints(store=CheckpointStore(root, keep=self.config.checkpoint.keep, parts=parts), every=every)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the wall time to the stage."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.records.add_stage_seconds(stage, time.monotonic() - began)

    def recorder(self, stage: str) -> Callable[[int, Stats], None]:
        """Write a record and show it."""

        def record(step: int, stats: Stats) -> None:
            values = reduce_stats(stats)
            self.records.metrics(stage, step, values)
            self.display.advance(step, values)

        return record
