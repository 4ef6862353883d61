"""Wall time, memory and orchestration of the default job, process starts included.

    python benchmarks/default_job.py RUN_DIR [KEY=VALUE ...]

Prints a JSON object and writes it to benchmarks/baselines/default_job.json. Run it on an idle machine: two runs on a
busy one can differ by a factor of two.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

BASELINE = Path(__file__).parent / "baselines" / "default_job.json"
SAMPLE_EVERY_S = 1.0


def main() -> None:
    """Run the job in a process of its own and watch its tree."""
    run_dir, *words = sys.argv[1:]
    began = time.monotonic()
    job = subprocess.Popen([sys.executable, "-m", "rlhf_ray.train", f"run_dir={run_dir}", *words])
    peak_bytes = 0
    while job.poll() is None:
        peak_bytes = max(peak_bytes, tree_bytes(job.pid))
        time.sleep(SAMPLE_EVERY_S)
    wall_s = time.monotonic() - began
    if job.returncode:
        sys.exit(job.returncode)
    rows = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    iterations = [row for row in rows if "time/iteration" in row]
    result = {
        "cores": os.cpu_count(),
        "wall_s": round(wall_s, 1),
        "peak_memory_gb": round(peak_bytes / 1e9, 2),
        "stage_s": {
            stage: round(seconds, 1)
            for stage, seconds in json.loads((Path(run_dir) / "run.json").read_text())["stage_seconds"].items()
        },
        "iteration_s": round(statistics.median(row["time/iteration"] for row in iterations), 3),
        "orchestration_share": round(statistics.median(row["time/orchestration_share"] for row in iterations), 4),
        "share_of_iteration": {
            name: round(statistics.median(row[f"time/{name}"] / row["time/iteration"] for row in iterations), 3)
            for name in ("generate", "score", "reference", "policy_logprobs", "values", "estimate", "update", "sync")
        },
    }
    BASELINE.parent.mkdir(exist_ok=True)
    BASELINE.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def tree_bytes(pid: int) -> int:
    """Proportional set size of the process and its descendants: shared pages count once in all."""
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


if __name__ == "__main__":
    main()
