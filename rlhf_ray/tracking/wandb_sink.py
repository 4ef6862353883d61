"""Weights & Biases: one run a stage, online or offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import wandb

from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, StageRun, Tracked
from rlhf_ray.tracking.wandb_id import WandbSettings
from rlhf_ray.types import Histogram

WANDB_ERRORS = (wandb.Error,)
_LEVELS = {"info": "INFO", "warning": "WARN", "error": "ERROR"}
_EXIT_CODES = {"finished": 0, "failed": 1, "preempted": 143}

# metrics whose best value is worth keeping, and what is best
_BEST = {
    "objective/rlhf_reward": "max",
    "objective/scores": "max",
    "objective/kl": "min",
    "eval/gold_score": "max",
    "eval/proxy_score": "max",
    "eval/win_rate": "max",
    "eval/perplexity": "min",
    "reward_model/val_accuracy": "max",
    "reward_model/val_loss": "min",
    "sft/val_loss": "min",
    "sft/rougeL": "max",
}


class WandbSink:
    """Implements Sink."""

    def __init__(self, run: Any, stage: StageRun, settings: WandbSettings) -> None:
        self._run = run
        self._stage = stage
        self._settings = settings
        self._artifact: str | None = None
        self._newest: int | None = None  # step
        # W&B's own step never goes back: it is ahead of ours by what rollbacks took back
        last = run.summary.get(stage.axis)
        self._ahead = 0 if last is None else run.starting_step - 1 - int(last)

    def metrics(self, step: int, values: Mapping[str, float | str]) -> None:
        """See Sink."""
        self._log(step, values)

    def show(self, step: int, item: Sheet | Histogram, *, name: str) -> None:
        """See Sink."""
        if isinstance(item, Sheet):
            value = wandb.Table(columns=list(item.columns), data=[list(row) for row in item.rows])
        else:
            value = wandb.Histogram(np_histogram=(np.array(item.counts), np.array(item.edges)))
        self._log(step, {name: value})

    def alert(self, alert: Alert) -> None:
        """See Sink."""
        self._run.alert(title=alert.title, text=alert.text, level=_LEVELS[alert.level])

    def made(self, made: MadeArtifact) -> None:
        """See Sink. Online this waits until the server has committed the artifact."""
        card = made.card
        artifact = wandb.Artifact(card.id.name, type=card.id.kind, metadata=made.about)
        if self._settings.upload_models:
            artifact.add_dir(str(made.folder), policy="immutable")
        else:
            artifact.add_file(str(made.folder / "artifact.json"))
        logged = self._run.log_artifact(artifact, aliases=[*card.aliases, self._stage.pipeline])
        if self._settings.online:
            self._artifact = logged.wait(timeout=round(self._settings.patience_s)).qualified_name

    def close(self, end: End) -> None:
        """See Sink."""
        self._run.summary.update({"status": end.status, "error": end.error})
        if end.status == "preempted":
            self._run.mark_preempting()
        self._run.finish(exit_code=_EXIT_CODES[end.status])

    def tracked(self) -> Tracked:
        """See Sink."""
        if not self._settings.online:
            return Tracked(backend="wandb_offline", run_id=self._run.id)
        return Tracked(backend="wandb", run_id=self._run.id, url=self._run.url, artifact=self._artifact)

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        if self._newest is not None and step < self._newest:
            self._ahead += self._newest + 1 - step
        self._newest = step
        self._run.log({**values, self._stage.axis: step}, step=step + self._ahead)


def open_wandb(stage: StageRun, settings: WandbSettings, *, run_id: str, tell: Callable[[str], None]) -> WandbSink:
    """Begin the stage's run, or continue it. Where no server answers the run is recorded offline."""
    if settings.online:
        try:
            run = _begin(stage, settings, run_id=run_id)
        except wandb.Error as error:
            folder = stage.folder / "wandb"
            tell(f"W&B cannot be used ({_reason(error)}): recorded offline; later: wandb sync {folder}/offline-run-*")
            wandb.teardown()  # until then the run's id is taken
        else:
            tell(f"W&B: {run.url}")
            _declare_inputs(run, stage, tell)
            return WandbSink(run, stage, settings)
    offline = replace(settings, online=False)
    return WandbSink(_begin(stage, offline, run_id=run_id), stage, offline)


def _begin(stage: StageRun, settings: WandbSettings, *, run_id: str) -> Any:
    run = wandb.init(
        project=settings.project,
        entity=settings.entity,
        id=run_id,
        resume="allow" if settings.online else None,
        mode="online" if settings.online else "offline",
        group=stage.pipeline,
        job_type=stage.stage,
        name=stage.name,
        tags=list(stage.tags),
        dir=str(stage.folder),
        config=dict(stage.config) | {"used": [asdict(used) for used in stage.used]},
        reinit="create_new",
        settings=_client(settings),
    )
    run.define_metric("*", step_metric=stage.axis)
    for name, best in _BEST.items():
        run.define_metric(name, step_metric=stage.axis, summary=f"{best},last")
    return run


def _declare_inputs(run: Any, stage: StageRun, tell: Callable[[str], None]) -> None:
    """What W&B does not know, or knows no longer, is still in the run's config."""
    for used in stage.used:
        if used.tracked_artifact is not None:
            try:
                run.use_artifact(used.tracked_artifact)
            except (wandb.Error, ValueError) as error:
                tell(f"W&B: {used.tracked_artifact} is not declared as the {used.role} ({_reason(error)})")


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _client(settings: WandbSettings) -> Any:
    """Quiet, without the machine's statistics and console; every wait is limited, so that offline is tried in time."""
    return wandb.Settings(
        sweep_id=settings.sweep_id,
        console="off",
        silent=True,
        disable_git=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        init_timeout=settings.patience_s / 4,
        finish_timeout=settings.patience_s / 2,
        x_graphql_timeout_seconds=settings.patience_s / 4,
    )
