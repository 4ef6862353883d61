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

    def metrics(self, step: int, values: Mapping[str, float | str]) -> None:
        """See Sink."""
        self._run.log({**values, self._stage.axis: step}, step=step)

    def show(self, step: int, item: Sheet | Histogram, *, name: str) -> None:
        """See Sink."""
        if isinstance(item, Sheet):
            value = wandb.Table(columns=list(item.columns), data=[list(row) for row in item.rows])
        else:
            value = wandb.Histogram(np_histogram=(np.array(item.counts), np.array(item.edges)))
        self._run.log({name: value, self._stage.axis: step}, step=step)

    def alert(self, alert: Alert) -> None:
        """See Sink."""
        self._run.alert(title=alert.title, text=alert.text, level=_LEVELS[alert.level])

    def made(self, made: MadeArtifact) -> None:
        """See Sink. Online this waits until the server has committed the artifact."""
        card = made.card
        about = {name: value for name, value in asdict(card).items() if name not in ("files", "id")}
        artifact = wandb.Artifact(card.id.name, type=card.id.kind, metadata=about | {"path": str(made.folder)})
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


def open_wandb(stage: StageRun, settings: WandbSettings, *, run_id: str, tell: Callable[[str], None]) -> WandbSink:
    """Begin the stage's run, or continue it. Where no server answers the run is recorded offline."""
    if settings.online:
        try:
            return WandbSink(_begin(stage, settings, run_id=run_id), stage, settings)
        except wandb.Error as error:
            reason = str(error).strip().partition("\n")[0]
            folder = stage.folder / "wandb"
            tell(f"W&B cannot be used ({reason}): recorded offline; upload later: wandb sync {folder}/offline-run-*")
            wandb.teardown()  # until then the run's id is taken
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
    if settings.online:
        for used in stage.used:
            if used.tracked_artifact is not None:
                run.use_artifact(used.tracked_artifact)
    return run


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
