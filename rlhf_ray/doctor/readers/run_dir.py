"""Directories: our runs, and what other trainers leave in theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog, flat_settings
from rlhf_ray.doctor.readers.jsonl import read_jsonl
from rlhf_ray.errors import DataError

_SHOWN = 5  # logs that a note names
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
        raw.notes += _ended(run)
        own = raw.settings.get("doctor.rules")
        raw.rules = own if isinstance(own, str) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raw.notes.append(f"run.json cannot be read ({error}): settings are unknown")
    return raw


def _ended(run: Mapping[str, object]) -> list[str]:
    """What a reader should know of a run that has not come to its end."""
    match run.get("status"):
        case "running":
            return ["the run still goes on, or was killed: run.json says running"]
        case "failed":
            return [f"the run failed: {run.get('error')}"]
        case "preempted":
            return [f"the run was ended from outside before its end ({run.get('error')})"]
        case _:
            return []


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
            left = [str(place.relative_to(folder)) for place in logs if place != largest]
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            others = f"; not read: {', '.join(left[:_SHOWN])}{more}" if left else ""
            of = f", the largest of {len(logs)} logs below {folder}" if left else ""
            return logs[largest], f"read: {largest}{of}{others}"
    names = ", ".join(pattern for patterns in _LOGS for pattern in patterns)
    raise DataError(f"{folder} holds no log; looked for run.json and {names}")
