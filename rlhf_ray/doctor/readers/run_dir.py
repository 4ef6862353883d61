"""Directories: our runs, and what other trainers leave in theirs."""

from __future__ import annotations

import json
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog, flat_settings
from rlhf_ray.doctor.readers.jsonl import read_jsonl
from rlhf_ray.doctor.readers.tensorboard import read_event_files
from rlhf_ray.errors import DataError

_DEEP = 4  # folders below the given one that are looked into


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


def logs_in(folder: Path) -> list[Path]:
    """The files of a directory that together are one log. Raises DataError where there is none."""
    files = [
        path
        for depth in range(_DEEP + 1)
        for path in sorted(folder.glob("/".join(["*"] * (depth + 1))))
        if path.is_file()
    ]
    events = [path for path in files if "tfevents" in path.name]
    states = [path for path in files if path.name == "trainer_state.json"]
    for found in (
        [path for path in files if path.name == "metrics.jsonl"][:1],
        sorted(states, key=lambda path: path.stat().st_size)[-1:],  # each checkpoint's repeats those before
        [path for path in files if path.suffix == ".wandb"][-1:],
        events,
        [path for path in files if path.suffix in (".jsonl", ".csv", ".tsv", ".parquet")][:1],
    ):
        if found:
            return found
    raise DataError(
        f"{folder} holds no log; looked for run.json with metrics.jsonl, trainer_state.json, *.wandb, *tfevents*, "
        "*.jsonl, *.csv, *.tsv, *.parquet"
    )


def read_events(paths: list[Path]) -> RawLog:
    """Event files of one folder: of several, the one with the most is a run's (others are of other runs)."""
    by_folder: dict[Path, list[Path]] = {}
    for path in paths:
        by_folder.setdefault(path.parent, []).append(path)
    largest = max(by_folder.values(), key=lambda group: sum(path.stat().st_size for path in group))
    raw = read_event_files(largest)
    if len(by_folder) > 1:
        raw.notes.append(f"{len(by_folder)} folders hold event files; read: {largest[0].parent}")
    return raw
