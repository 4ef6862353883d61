"""Directories: our runs, and what other trainers leave in theirs."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog, flat_settings
from rlhf_ray.doctor.readers.jsonl import read_jsonl
from rlhf_ray.errors import DataError

_DEEP = 4  # folders below the given one that are looked into
_EVENTS = ("*tfevents*",)  # of one folder, they are one log
_LOGS = (
    ("metrics.jsonl",),
    ("trainer_state.json",),
    ("*.wandb",),
    _EVENTS,
    ("*.jsonl", "*.csv", "*.tsv", "*.parquet"),
)


def read_run_dir(folder: Path) -> RawLog:
    """metrics.jsonl with the configuration of run.json. Raises DataError where nothing was recorded yet."""
    metrics = folder / "metrics.jsonl"
    if not metrics.exists():
        raise DataError(f"{folder} has a run.json but no metrics.jsonl: nothing was recorded yet")
    raw = read_jsonl(metrics)
    raw.format = "run directory"
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        raw.settings = flat_settings(run["config"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raw.notes.append(f"run.json cannot be read ({error}): settings are unknown")
    return raw


def log_in(folder: Path) -> tuple[list[Path], str]:
    """The files below a folder that together are one log, and a note on which they are. Of several logs, the largest.

    Raises DataError where there is none.
    """
    files = [
        path
        for depth in range(_DEEP + 1)
        for path in sorted(folder.glob("/".join(["*"] * (depth + 1))))
        if path.is_file()
    ]
    for patterns in _LOGS:
        logs: dict[Path, list[Path]] = {}
        for path in files:
            if any(fnmatchcase(path.name, pattern) for pattern in patterns):
                logs.setdefault(path.parent if patterns == _EVENTS else path, []).append(path)
        if logs:
            largest = max(logs, key=lambda place: sum(path.stat().st_size for path in logs[place]))
            others = f", the largest of {len(logs)} logs below {folder}" if len(logs) > 1 else ""
            return logs[largest], f"read: {largest}{others}"
    names = ", ".join(pattern for patterns in _LOGS for pattern in patterns)
    raise DataError(f"{folder} holds no log; looked for run.json and {names}")
