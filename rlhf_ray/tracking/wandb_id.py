"""Where runs go at W&B and how they are called. Loads nothing of W&B."""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbSettings:
    """Where and how runs are kept."""

    online: bool
    project: str
    entity: str | None
    upload_models: bool  # or only their cards
    patience_s: float
    sweep_id: str | None  # where an agent of a W&B sweep started this job


def wandb_environment(run_dir: Path) -> dict[str, str]:
    """What W&B reads when it loads: its files stay with the run, and its own error reports, which hold back the exit
    of a program where no server answers, are off. It says nothing in the midst of the progress.
    """
    return {
        "WANDB_DATA_DIR": str(run_dir / "wandb" / "data"),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
    }


def new_wandb_id() -> str:
    """A run id, unique within its project for all times."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What an agent of a W&B sweep hands to the job that it starts."""

    sweep_id: str
    run_id: str


def take_agent(environment: MutableMapping[str, str]) -> Agent | None:
    """Take the agent's words out of the environment: W&B would give all stages of the job its one run."""
    sweep_id, run_id = (environment.pop(name, None) for name in ("WANDB_SWEEP_ID", "WANDB_RUN_ID"))
    environment.pop("WANDB_SWEEP_PARAM_PATH", None)
    return Agent(sweep_id=sweep_id, run_id=run_id) if sweep_id and run_id else None
