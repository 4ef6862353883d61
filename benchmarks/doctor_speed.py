"""How long `python -m rlhf_ray.doctor` takes, started anew, on long logs.

    python benchmarks/doctor_speed.py [--repeats 5]

The logs are made: 10,000 steps of 60 metrics as JSON Lines, a healthy run whose course changes, and a million rows of
five columns as CSV. Prints a JSON object and writes it to benchmarks/baselines/doctor_speed.json. Wall time counts what
other programs take of the machine, processor time hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).parent / "baselines" / "doctor_speed.json"
NUM_STEPS, NUM_ROWS = 10_000, 1_000_000
READ = {  # level at the start, change up to where the course bends, size of the noise
    "objective/scores": (0.3, 1.2, 0.05),
    "objective/kl": (0.0, 3.0, 0.1),
    "eval/gold_score": (0.1, 0.8, 0.02),
    "policy/entropy_avg": (1.9, -0.4, 0.02),
    "policy/clipfrac_avg": (0.05, 0.0, 0.01),
    "policy/approxkl_avg": (0.01, 0.0, 0.002),
    "policy/grad_norm": (0.5, 0.0, 0.05),
    "loss/policy_avg": (-0.01, 0.0, 0.005),
    "loss/value_avg": (0.2, -0.1, 0.01),
    "val/explained_variance": (0.1, 0.6, 0.05),
    "val/eos_rate": (0.97, 0.02, 0.005),
    "response/length_mean": (20.0, 2.0, 0.5),
    "response/distinct_2": (0.4, -0.05, 0.01),
    "time/iteration": (0.7, 0.0, 0.05),
}
BESIDE = 46  # metrics that no check reads
BEND = 0.4  # of the run: from there on nothing rises


def main(words: Sequence[str]) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        long, huge = Path(folder) / "long.jsonl", Path(folder) / "huge.csv"
        long.write_text("".join(json.dumps(row) + "\n" for row in rows(random.Random(1))))
        with huge.open("w") as file:
            file.write("step,kl,reward,entropy,policy_loss\n")
            file.writelines(f"{i},{i % 5},1.{i % 9},1.5,0.0{i % 3}\n" for i in range(NUM_ROWS))
        result = {
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "start_alone": measured([], given.repeats),
            f"{NUM_STEPS}_steps_of_{len(READ) + BESIDE}_metrics": measured([str(long)], given.repeats),
            f"{NUM_ROWS}_rows": measured([str(huge)], 1),
        }
    BASELINE.parent.mkdir(exist_ok=True)
    BASELINE.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def rows(source: random.Random) -> Iterator[dict[str, float]]:
    """A run that learns, then stays where it is."""
    for step in range(1, NUM_STEPS + 1):
        share = min(step / (BEND * NUM_STEPS), 1.0)
        read = {
            name: level + change * share + source.gauss(0.0, noise) for name, (level, change, noise) in READ.items()
        }
        yield {"step": step, **read, **{f"other/{number}": source.random() for number in range(BESIDE)}}


def measured(paths: Sequence[str], repeats: int) -> dict[str, Any]:
    """Of `repeats` starts: the median and the least wall time, the median processor time, the most memory."""
    command = [sys.executable, "-m", "rlhf_ray.doctor", *(paths or ["--help"])]
    walls, processor, memory = [], [], []
    for _ in range(repeats):
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _pid, status, usage = os.wait4(process.pid, 0)
        walls.append(time.monotonic() - began)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{command} ended with {process.returncode}"
        processor.append(usage.ru_utime + usage.ru_stime)
        memory.append(usage.ru_maxrss / 1024)
    return {
        "wall_s": round(statistics.median(walls), 2),
        "wall_s_least": round(min(walls), 2),
        "processor_s": round(statistics.median(processor), 2),
        "memory_mib": round(max(memory)),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
