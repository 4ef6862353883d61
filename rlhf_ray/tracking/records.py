"""run.json and metrics.jsonl of one run directory, and what a resume does to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlhf_ray.errors import DataError
from rlhf_ray.files.atomic import write_json_atomic, write_text_atomic
from rlhf_ray.files.jsonl import JsonlWriter, read_jsonl
from rlhf_ray.files.lock import FolderLock
from rlhf_ray.tracking.environment import PACKAGES, git_state, package_versions, platform_facts
from rlhf_ray.tracking.registry import check_names
from rlhf_ray.tracking.rollout_files import rollouts_step

ROLLOUT_STAGE = "ppo"

Clock = Callable[[], float]  # seconds since 1970, UTC


class RunStatus(StrEnum):
    """What became of a run. One that was killed stays at RUNNING."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    PREEMPTED = "preempted"


class RunRecords:
    """The one writer of a run directory's records. Made by `start_records` or `resume_records`."""

    def __init__(self, run_dir: Path, *, run: dict[str, Any], clock: Clock, lock: FolderLock) -> None:
        self.run_dir = run_dir
        self._lock = lock
        self._run = run
        self._clock = clock
        self.save()
        self._writer = JsonlWriter(self._metrics_path)

    @property
    def run_id(self) -> str:
        """The directory's name: names the run in artifacts and lineage."""
        return str(self._run["id"])

    @property
    def rollouts_dir(self) -> Path:
        """Where answers are recorded."""
        return self.run_dir / "rollouts"

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Wall time per stage so far, resumes included."""
        return dict(self._run["stage_seconds"])

    @property
    def git_commit(self) -> str | None:
        """The commit the run was made from."""
        return None if self._run["git"] is None else str(self._run["git"]["commit"])

    def tracked(self, stage: str) -> Mapping[str, Any] | None:
        """How a tracker calls the run of a stage, where one does."""
        found: Mapping[str, Any] | None = self._run.get("trackers", {}).get(stage)
        return found

    def set_tracked(self, stage: str, facts: Mapping[str, Any]) -> None:
        """Remember how a tracker calls the run of a stage."""
        self._run.setdefault("trackers", {})[stage] = dict(facts)
        self.save()

    def metrics(self, stage: str, step: int, values: Mapping[str, float | None]) -> None:
        """Append a row. Raises MetricError for a name that is not in the registry."""
        check_names(values)
        self._writer.append({"stage": stage, "step": step, **values})

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return read_jsonl(self._metrics_path)

    def has(self, stage: str, step: int) -> bool:
        """Whether a row of this step is there."""
        return any(row["stage"] == stage and row["step"] == step for row in self.rows())

    def add_stage_seconds(self, stage: str, seconds: float) -> None:
        """Count wall time to a stage; written with the next change."""
        timings = self._run["stage_seconds"]
        timings[stage] = timings.get(stage, 0.0) + seconds

    def finish(self, status: RunStatus, *, error: str | None) -> None:
        """Write how the run ended, and close."""
        self._run |= {"status": status.value, "error": error, "ended": self._now()}
        self.save()
        self._writer.close()
        self._lock.release()

    def withdraw(self, before: Mapping[str, Any]) -> None:
        """A resume that was refused: run.json is again what it was, and others are let in."""
        write_json_atomic(self.run_dir / "run.json", before)
        self._writer.close()
        self._lock.release()

    def save(self) -> None:
        """Write run.json."""
        write_json_atomic(self.run_dir / "run.json", self._run)

    def set_aside_after(self, stage: str, step: int) -> int:
        """Move the first row of `stage` above `step`, and all written after it, to metrics.set-aside-<n>.jsonl.

        The answers of those iterations go to rollouts.set-aside-<n>/. Returns the number of rows moved.
        """
        self._writer.close()
        rows = self.rows()
        later = (i for i, row in enumerate(rows) if row["stage"] == stage and row["step"] > step)
        cut = next(later, len(rows))
        number = 1 + max(map(_set_aside_number, self.run_dir.glob("*.set-aside-*")), default=0)
        if rows[cut:]:
            write_text_atomic(self.run_dir / f"metrics.set-aside-{number}.jsonl", _lines(rows[cut:]))
            write_text_atomic(self._metrics_path, _lines(rows[:cut]))
        stale = [p for p in self.rollouts_dir.glob("*.parquet") if stage != ROLLOUT_STAGE or rollouts_step(p) > step]
        for path in stale:
            aside = self.run_dir / f"rollouts.set-aside-{number}"
            aside.mkdir(exist_ok=True)
            path.rename(aside / path.name)
        self._writer = JsonlWriter(self._metrics_path)
        return len(rows) - cut

    @property
    def _metrics_path(self) -> Path:
        return self.run_dir / "metrics.jsonl"

    def _now(self) -> str:
        return _utc(self._clock())


def start_records(
    run_dir: Path, *, config: Mapping[str, Any], command: Sequence[str], seed: int, source: Path, clock: Clock
) -> RunRecords:
    """Begin the records of a new run. `source` is a folder in the repository whose commit is recorded.

    Raises DataError where the directory already has records, or another process writes there.
    """
    if (run_dir / "run.json").exists():
        raise DataError(f"{run_dir} already holds the records of a run; continue it with resume={run_dir}")
    run_dir.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(run_dir)
    run: dict[str, Any] = {
        "id": run_dir.name,
        "status": RunStatus.RUNNING.value,
        "error": None,
        "started": _utc(clock()),
        "ended": None,
        "command": list(command),
        "seed": seed,
        "stage_seconds": {},
        "versions": package_versions(PACKAGES),
        "git": git_state(source),
        "platform": platform_facts(),
        "resumes": [],
        "config": dict(config),
    }
    return RunRecords(run_dir, run=run, clock=clock, lock=lock)


def resume_records(run_dir: Path, *, command: Sequence[str], source: Path, clock: Clock) -> RunRecords:
    """Go on with the records of a run that ended or was killed.

    Raises DataError where there are none, or where the run still goes on.
    """
    run = read_run(run_dir)
    lock = FolderLock(run_dir)
    resume = {
        "time": _utc(clock()),
        "command": list(command),
        "status_before": run["status"],
        "error_before": run["error"],
        "versions": package_versions(PACKAGES),
        "git": git_state(source),
        "platform": platform_facts(),
    }
    run |= {"status": RunStatus.RUNNING.value, "error": None, "ended": None, "resumes": [*run["resumes"], resume]}
    return RunRecords(run_dir, run=run, clock=clock, lock=lock)


def read_run(run_dir: Path) -> dict[str, Any]:
    """run.json. Raises DataError where it is missing or unreadable."""
    path = run_dir / "run.json"
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); {run_dir} is not the directory of a run") from error
    if not isinstance(run, dict):
        raise DataError(f"{path} holds no object; {run_dir} is not the directory of a run")
    return run


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _set_aside_number(path: Path) -> int:
    return int(path.name.partition(".set-aside-")[2].partition(".")[0])
