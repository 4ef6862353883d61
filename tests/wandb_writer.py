"""One stage recorded at W&B in a process of its own, as the driver of a run does it: `write` starts it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from rlhf_ray.files.jsonl import finite_row
from rlhf_ray.tracking.artifacts import ArtifactId, Origin, write_artifact_card
from rlhf_ray.tracking.patient_sink import PatientSink
from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, StageRun, UsedArtifact, recordable
from rlhf_ray.tracking.wandb_id import WandbSettings, wandb_environment
from rlhf_ray.types import Histogram

# what `write` changes of it
STAGE: dict[str, Any] = {
    "stage": "ppo",
    "run_id": "f00d",
    "online": False,
    "steps": [0, 1, 2, 3],
    "pause_s": 0.0,  # between steps
    "status": "finished",
    "patience_s": 20.0,
    "sweep_id": None,
    "used": [],  # of UsedArtifact
}


def write(folder: Path, *, environment: dict[str, str], **changes: Any) -> subprocess.CompletedProcess[str]:
    """Record STAGE with these changes in a folder. Prints the slowest call's seconds, and how the run is called."""
    folder.mkdir(exist_ok=True)
    names = {**os.environ, **wandb_environment(folder), **environment}
    command = [sys.executable, __file__, str(folder), json.dumps(STAGE | changes)]
    return subprocess.run(command, env=names, capture_output=True, text=True, timeout=120, check=True)


def main(folder: Path, about: dict[str, Any]) -> None:
    """A score that is not finite at step 2, a KL that is not at step 1; a table, an alert and a result at the end."""
    sink = open_sink(folder, about)
    slowest = 0.0
    for step in about["steps"]:
        began = time.monotonic()
        score, kl = math.nan if step == 2 else float(step), math.inf if step == 1 else 0.5
        values = {"objective/scores": score, "objective/kl": kl, "eval/win_rate": None}
        sink.metrics(step, recordable(finite_row(values)))
        sink.show(step, Histogram((1, 2), (0.0, 1.0, 2.0)), name="objective/scores_histogram")
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(about["pause_s"])
    table = Sheet(name="samples", columns=("prompt", "kl"), rows=(("Hello", 0.5), ("Bye", None)))
    sink.show(about["steps"][-1], table, name="samples")
    sink.alert(Alert(title="KL", text="runs away", level="warning"))
    sink.made(made(folder, about["stage"], version=about["steps"][-1]))
    sink.close(End(status=about["status"], error=None if about["status"] == "finished" else "it broke"))
    sys.stdout.write(f"slowest {slowest}\ntracked {sink.tracked()}\n")


def open_sink(folder: Path, about: dict[str, Any]) -> PatientSink:
    """As the pipeline opens it."""
    from rlhf_ray.tracking.wandb_sink import WANDB_ERRORS, open_wandb  # the environment is read as it loads

    stage = StageRun(
        stage=about["stage"],
        pipeline="run-1",
        name=f"run-1/{about['stage']}",
        folder=folder,
        config={"seed": 3, "beta": 0.05},
        used=tuple(UsedArtifact(**used) for used in about["used"]),
        tags=("reviews", "seed 3"),
    )
    settings = WandbSettings(
        online=about["online"],
        project="rlhf_ray",
        entity=None,
        upload_models=False,
        patience_s=about["patience_s"],
        sweep_id=about["sweep_id"],
    )
    opening = partial(open_wandb, stage, settings, run_id=about["run_id"], tell=print)
    return PatientSink(opening, errors=WANDB_ERRORS, patience_s=about["patience_s"], tell=print, clock=time.monotonic)


def made(folder: Path, stage: str, *, version: int) -> MadeArtifact:
    """A model, the best of its candidates or not."""
    artifact = folder / "policy"
    artifact.mkdir(exist_ok=True)
    (artifact / "w").write_text("w")
    card = write_artifact_card(
        artifact,
        identity=ArtifactId(kind="policy", name="policy", version=version),
        origin=Origin(
            run_id="run-1",
            stage=stage,
            config_digest="c",
            data_fingerprint="d",
            git_commit=None,
            seed=3,
            inputs="sha256:i",
        ),
        parents=[],
        metrics={"eval/win_rate": 0.9},
        decision=None,
    )
    return MadeArtifact(folder=artifact, card=card)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
