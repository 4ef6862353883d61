"""What the doctor costs while a run goes on: seconds of Monitor.examine per iteration, against the iteration's own.

    python benchmarks/doctor_online.py RUN_DIRECTORY

Replays the PPO rows of a run, over and over up to --iterations, through a monitor of its own, findings written and told
included. Prints a JSON object and writes it to benchmarks/baselines/doctor_online.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rlhf_ray.config.host import Host
from rlhf_ray.config.load import Start, load
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.loops.ppo import PpoState
from rlhf_ray.pipeline.monitor import Monitor, measured
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.tracking.records import RunStatus, start_records
from rlhf_ray.types import Last

BASELINE = Path(__file__).parent / "baselines" / "doctor_online.json"


def main(words: Sequence[str]) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN_DIRECTORY")
    parser.add_argument("--iterations", type=int, default=300)
    given = parser.parse_args(words)
    rows = [row for row in read_jsonl(given.run / "metrics.jsonl") if row["stage"] == "ppo" and "time/iteration" in row]
    with tempfile.TemporaryDirectory() as folder:
        seconds = examined(rows, Path(folder) / "run", given.iterations)
    iteration_s = statistics.median(row["time/iteration"] for row in rows)
    median_s = statistics.median(seconds)
    result = {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "iterations": given.iterations,
        "examine_ms_median": round(median_s * 1e3, 2),
        "examine_ms_p95": round(statistics.quantiles(seconds, n=20)[-1] * 1e3, 2),
        "iteration_s": round(iteration_s, 3),
        "share": round(median_s / iteration_s, 5),
    }
    BASELINE.parent.mkdir(exist_ok=True)
    BASELINE.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def examined(rows: Sequence[dict[str, float]], run_dir: Path, iterations: int) -> list[float]:
    """CPU seconds of each examination: what other programs take of the machine does not count."""
    start = Start(folder=run_dir.parent, run_name="run", job=None, host=Host(num_cpus=2, num_gpus=0, has_vllm=True))
    config = load([f"run_dir={run_dir}"], start).config
    records = start_records(run_dir, config=asdict(config), command=(), seed=1, source=run_dir, clock=time.time)
    monitor = Monitor(config, run_dir, rows=(), tell=lambda _text: None)
    tracker = Tracker(config, records, tell=lambda _text: None)
    seconds = []
    for step in range(1, iterations + 1):
        row = measured(rows[(step - 1) % len(rows)])
        state = PpoState(step=step, kl_coef=config.algorithm.kl_coef, learning_rate_share=1.0)
        stats = {name: Last(value) for name, value in row.items()}
        began = time.process_time()
        monitor.examine(state, stats, checkpoints=(), tracker=tracker)
        seconds.append(time.process_time() - began)
    monitor.close()
    records.finish(RunStatus.FINISHED, error=None)
    return seconds


if __name__ == "__main__":
    main(sys.argv[1:])
