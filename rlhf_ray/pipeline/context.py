"""What every stage is given: the team, the configuration, the records, and where results lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.pipeline.monitor import Monitor
from rlhf_ray.pipeline.start import Opened
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.tracking.artifacts import Parent
from rlhf_ray.tracking.producer import parent_folder, used_artifact
from rlhf_ray.tracking.progress import Display
from rlhf_ray.tracking.records import RunRecords
from rlhf_ray.tracking.samples import write_samples
from rlhf_ray.tracking.values import distributions, reduce_stats
from rlhf_ray.types import Stats

DATA_FILE = "data.json"
RIDING = ("reward_model/val_accuracy", "reward_model/score_ceiling")  # recorded beside PPO's scores


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run."""

    config: TrainConfig
    run_dir: Path
    opened: Opened
    records: RunRecords
    display: Display
    tracker: Tracker
    monitor: Monitor

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
        store = CheckpointStore(root, keep=self.config.checkpoint.keep, parts=parts)
        return Checkpoints(store=store, every=every, rows=asdict(self.opened.rows.fates))

    def go_back(self, stage: str, step: int) -> None:
        """Set aside what was recorded after this step, and judge as if it had not been."""
        self.records.set_aside_after(stage, step)
        self.monitor.forget_after(stage, step)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the wall time to the stage, and tell the tracker how it ended."""
        began = time.monotonic()
        try:
            with self.tracker.closing():
                yield
        finally:
            self.records.add_stage_seconds(name, time.monotonic() - began)
        self.records.save()

    def recorder(self, stage: str, made_from: Sequence[Parent]) -> Callable[[int, Stats], None]:
        """Begins the stage's records; what it returns writes a row and shows it."""
        place = self.artifact(stage)
        used = [used_artifact(parent, place) for parent in made_from]
        (start,) = [parent_folder(parent, place) for parent in made_from if parent.role in ("base", "policy")]
        assert start is not None, "it was read a moment ago"
        self.tracker.begin(stage, start=start, used=used, data=self._specification())

        def record(step: int, stats: Stats) -> None:
            values = reduce_stats(stats)
            self.records.metrics(stage, step, values)
            # what rides along with PPO is known since the stage before
            self.display.advance(step, {name: values[name] for name in values if name not in RIDING or stage != "ppo"})
            self.tracker.record(step, values, distributions(stats))
            if stage != "ppo":  # PPO asks for a verdict
                self.monitor.watch(stage, step, stats, tracker=self.tracker)
            if "eval/proxy_score" in values:
                self._show_samples(step)

        return record

    def _specification(self) -> Mapping[str, Any]:
        """What the data are, also as data.json."""
        team = self.opened.team
        (found,) = team.runtime.gather([team.runtime.call(team.workers.data, DataWorker.specification)])
        write_json_atomic(self.run_dir / DATA_FILE, found)
        specification: Mapping[str, Any] = found
        return specification

    def _show_samples(self, step: int) -> None:
        """The table of an evaluation: held-out prompts with their answers."""
        count, team = self.config.tracking.num_samples, self.opened.team
        if count:
            (sheet,) = team.runtime.gather([team.runtime.call(team.workers.data, DataWorker.samples, count)])
            write_samples(self.run_dir, step, sheet)
            self.tracker.show(step, sheet)
