"""The tracker beside the local files: which one, and its run of the stage that goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.files.jsonl import finite_row
from rlhf_ray.pipeline.tracker_settings import architecture, tracked_settings, wandb_settings
from rlhf_ray.tracking.artifacts import ArtifactCard
from rlhf_ray.tracking.patient_sink import PatientSink
from rlhf_ray.tracking.records import RunRecords, RunStatus
from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, Sink, StageRun, Tracked, UsedArtifact, recordable
from rlhf_ray.tracking.wandb_id import Agent, new_wandb_id, take_agent, wandb_environment
from rlhf_ray.types import Histogram

Tell = Callable[[str], None]


class Tracker:
    """Opens one run a stage at the tracker that the settings name; with `local`, does nothing."""

    def __init__(self, config: TrainConfig, records: RunRecords, *, tell: Tell) -> None:
        self._config = config
        self._records = records
        self._tell = tell
        self._agent = take_agent(os.environ)
        self._stage = ""
        self._sink: Sink | None = None

    def begin(self, stage: str, *, start: Path, used: Sequence[UsedArtifact], data: Mapping[str, Any]) -> None:
        """A stage begins from the model in `start`, or goes on."""
        config, records = self._config, self._records
        if config.tracking.backend == "local":
            return
        run = StageRun(
            stage=stage,
            pipeline=records.run_id,
            name=f"{records.run_id}/{stage}",
            folder=records.run_dir,
            config=tracked_settings(config, stage)
            | {"architecture": architecture(start, stage), "data_fingerprint": data["fingerprint"], "data": data}
            | {"settings": asdict(config)},
            used=tuple(used),
            tags=(config.experiment_name, f"seed {config.seed}"),
        )
        self._stage = stage
        self._sink = open_sink(run, config, records, agent=self._agent, tell=self._tell)

    def record(self, step: int, values: Mapping[str, float | None], distributions: Mapping[str, Histogram]) -> None:
        """A row of metrics.jsonl, and what is no number."""
        if self._sink is not None:
            self._sink.metrics(step, recordable(finite_row(values)))
            for name, distribution in distributions.items():
                self._sink.show(step, distribution, name=name)

    def show(self, step: int, sheet: Sheet) -> None:
        """A table."""
        if self._sink is not None:
            self._sink.show(step, sheet, name=sheet.name)

    def alert(self, title: str, text: str, *, level: str) -> None:
        """Tell the run's owner; level is info, warning or error."""
        if self._sink is not None:
            self._sink.alert(Alert(title=title, text=text, level=level))

    def made(self, folder: Path, card: ArtifactCard) -> None:
        """The stage's result is written."""
        if self._sink is not None:
            self._sink.made(MadeArtifact(folder=folder, card=card))

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Whatever happens to the stage, the tracker is told how it ended."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self._close(RunStatus.PREEMPTED, type(interrupt).__name__)
            raise
        except BaseException as error:
            self._close(RunStatus.FAILED, f"{type(error).__name__}: {error}")
            raise
        self._close(RunStatus.FINISHED, None)

    def _close(self, status: RunStatus, error: str | None) -> None:
        sink, self._sink = self._sink, None
        if sink is None:
            return
        sink.close(End(status=status.value, error=error))
        tracked = sink.tracked()
        if tracked is not None:
            self._records.set_tracked(self._stage, asdict(tracked))


def open_sink(run: StageRun, config: TrainConfig, records: RunRecords, *, agent: Agent | None, tell: Tell) -> Sink:
    """The tracker's run of a stage, behind a wall that no hanging and no error of it crosses."""
    patient = partial(PatientSink, patience_s=config.tracking.patience_s, tell=tell, clock=time.monotonic)
    if config.tracking.backend == "tensorboard":
        from rlhf_ray.tracking.tensorboard_sink import TensorboardSink  # noqa: PLC0415  loads only where chosen

        written = [row["step"] for row in records.rows() if row["stage"] == run.stage]
        purge_from = max(written) + 1 if written else None
        return patient(partial(TensorboardSink, run, purge_from=purge_from), errors=())
    for name, value in wandb_environment(records.run_dir).items():
        os.environ.setdefault(name, value)
    from rlhf_ray.tracking.wandb_sink import (  # noqa: PLC0415  takes a second to load: only where chosen
        WANDB_ERRORS,
        open_wandb,
    )

    is_agents = agent is not None and run.stage == config.stages[-1]
    run_id = wandb_run_id(run.stage, records, agents=agent.run_id if agent is not None and is_agents else None)
    settings = wandb_settings(config, sweep_id=agent.sweep_id if agent is not None and is_agents else None)
    records.set_tracked(run.stage, asdict(Tracked(backend=config.tracking.backend, run_id=run_id)))
    return patient(partial(open_wandb, run, settings, run_id=run_id, tell=tell), errors=WANDB_ERRORS)


def wandb_run_id(stage: str, records: RunRecords, *, agents: str | None) -> str:
    """A resumed stage's own, the one of an agent that started the job, or a new one."""
    known = records.tracked(stage)
    if known is not None and known["backend"].startswith("wandb"):
        return str(known["run_id"])
    return agents or new_wandb_id()
