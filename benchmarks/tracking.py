"""What tracking costs an iteration, and how long it takes to compare many long runs.

    python benchmarks/tracking.py RUN_DIR

RUN_DIR is a finished run of the default job: its rows are what is tracked. Prints a JSON object and writes it to
benchmarks/baselines/tracking.json. Processor time is counted, of this process and of W&B's own, so that a busy machine
changes little; the wall time of `compare` is given, too.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from rlhf_ray.files.jsonl import finite_row, read_jsonl
from rlhf_ray.tracking.patient_sink import PatientSink
from rlhf_ray.tracking.sink import End, Sheet, StageRun, recordable
from rlhf_ray.tracking.tensorboard_sink import TensorboardSink
from rlhf_ray.tracking.wandb_id import WandbSettings, wandb_environment
from rlhf_ray.types import Histogram

BASELINE = Path(__file__).parent / "baselines" / "tracking.json"
ITERATIONS = 200
SETTLING_S = 3.0
NUM_RUNS, NUM_STEPS = 8, 10_000


def main() -> None:
    """Measure both."""
    run_dir = Path(sys.argv[1])
    rows = [row for row in read_jsonl(run_dir / "metrics.jsonl") if "time/iteration" in row]
    iteration_s = statistics.median(row["time/iteration"] for row in rows)
    row = {name: value for name, value in rows[-1].items() if name not in ("stage", "step")}
    with tempfile.TemporaryDirectory() as folder:
        costs = {name: tracked_s(name, row, Path(folder) / name) for name in ("wandb_offline", "tensorboard")}
        comparison = compare_s(run_dir, rows[-1], Path(folder) / "runs")
    result = {
        "cores": os.cpu_count(),
        "iteration_s": round(iteration_s, 3),
        "cpu_ms_per_iteration": {name: round(1000 * cost, 2) for name, cost in costs.items()},
        "share_of_iteration": {name: round(cost / iteration_s, 5) for name, cost in costs.items()},
        f"compare_{NUM_RUNS}_runs_of_{NUM_STEPS}_steps": comparison,
    }
    BASELINE.parent.mkdir(exist_ok=True)
    BASELINE.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def tracked_s(backend: str, row: dict[str, Any], folder: Path) -> float:
    """Processor seconds of one iteration: a row, two distributions, and a table every fifth time."""
    folder.mkdir(parents=True)
    stage = StageRun(stage="ppo", pipeline="p", name="p/ppo", folder=folder, config={}, used=(), tags=())
    if backend == "tensorboard":
        opening, errors = partial(TensorboardSink, stage, purge_from=None), ()
    else:
        os.environ.update(wandb_environment(folder))
        from rlhf_ray.tracking.wandb_sink import WANDB_ERRORS, open_wandb  # noqa: PLC0415  reads the environment

        settings = WandbSettings(
            online=False, project="p", entity=None, upload_models=False, patience_s=60, sweep_id=None
        )
        opening, errors = partial(open_wandb, stage, settings, run_id="bench", tell=print), WANDB_ERRORS
    sink = PatientSink(opening, errors=errors, patience_s=60, tell=print, clock=time.monotonic)
    distribution = Histogram(tuple(range(30)), tuple(float(edge) for edge in range(31)))
    sheet = Sheet(
        name="samples", columns=("prompt", "answer", "score"), rows=[("a prompt", "an answer " * 5, 0.5)] * 16
    )
    while sink.tracked() is None:
        time.sleep(0.05)
    began = cpu_s()
    for step in range(ITERATIONS):
        sink.metrics(step, recordable(finite_row(row)))
        for name in ("objective/scores_histogram", "policy/ratio_histogram"):
            sink.show(step, distribution, name=name)
        if step % 5 == 0:
            sink.show(step, sheet, name="samples")
    spent = cpu_s() - began
    sink.close(End(status="finished", error=None))
    return spent / ITERATIONS


def cpu_s() -> float:
    """Processor seconds of this process and of W&B's own, once all that was handed over is done."""
    time.sleep(SETTLING_S)
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def compare_s(run_dir: Path, row: dict[str, Any], folder: Path) -> dict[str, float]:
    """Wall and processor seconds of the whole program, process start included."""
    run = json.loads((run_dir / "run.json").read_text())
    noise = random.Random(1)
    for seed in range(NUM_RUNS):
        one = folder / f"run-{seed}"
        one.mkdir(parents=True)
        (one / "run.json").write_text(json.dumps(run | {"id": one.name, "seed": seed}))
        with (one / "metrics.jsonl").open("w") as file:
            for step in range(NUM_STEPS):
                values = {k: v * noise.uniform(0.99, 1.01) if isinstance(v, float) else v for k, v in row.items()}
                file.write(json.dumps(values | {"stage": "ppo", "step": step}) + "\n")
    began, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "rlhf_ray.compare", str(folder), "--out", str(folder / "out")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return {"wall_s": round(time.monotonic() - began, 2), "cpu_s": round(cpu_s, 2)}


if __name__ == "__main__":
    main()
