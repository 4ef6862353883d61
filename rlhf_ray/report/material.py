"""What the page is made from: a run directory, or any log that the doctor reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlhf_ray.doctor.actions import FINDINGS_FILE
from rlhf_ray.doctor.examine import examine_run
from rlhf_ray.doctor.findings import Diagnosis, Finding, finding_of_record
from rlhf_ray.doctor.readers.detect import read_log
from rlhf_ray.doctor.rules import Rules
from rlhf_ray.doctor.runlog import Floats, RunLog, Series, series_of
from rlhf_ray.errors import DataError
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.report import shapes

Record = Mapping[str, Any]
Curves = Mapping[str, Mapping[str, Series]]  # stage -> metric -> its finite values


@dataclass(frozen=True, kw_only=True)
class Material:
    """All that is known about a run; what its directory lacks is empty."""

    name: str
    diagnosis: Diagnosis
    curves: Curves
    told: tuple[Finding, ...]  # while it ran, in the order in which they were
    actions: tuple[Record, ...]
    run: Record
    summary: Record
    lineage: Record
    samples: Mapping[int, Sequence[Record]]  # step -> a row a held-out prompt
    scores: Mapping[int, Floats]  # iteration -> the score of every answer
    notes: tuple[str, ...]  # what could not be read


def read_material(path: Path, rules: Rules | None, given: Mapping[str, str]) -> Material:
    """A run directory with everything in it, another log with its curves.

    Raises DataError for what cannot be read as metrics, ConfigError for a `given` (--map) that does not fit.
    """
    log = read_log(path, given)
    notes: list[str] = []
    is_run = (path / "run.json").exists()
    told = list(_lines(path / FINDINGS_FILE, notes)) if is_run else []
    return Material(
        name=path.resolve().name,
        diagnosis=examine_run(log, rules),
        curves=_curves(log, _lines(path / "metrics.jsonl", notes) if is_run else ()),
        told=tuple(_findings(told, notes)),
        actions=tuple(_actions(told)),
        run=_record(path / "run.json", shapes.RUN, notes) if is_run else {},
        summary=_record(path / "summary.json", shapes.SUMMARY, notes) if is_run else {},
        lineage=_record(path / "lineage.json", shapes.LINEAGE, notes) if is_run else {},
        samples=dict(_samples(path / "samples", notes)) if is_run else {},
        scores=dict(_scores(path / "rollouts", notes)) if is_run else {},
        notes=tuple(notes),
    )


def _curves(log: RunLog, rows: Sequence[Record]) -> Curves:
    """Of our own rows every metric; of others those that the doctor knows."""
    curves: dict[str, dict[str, Series]] = {stage.stage: dict(stage.series) for stage in log.stages}
    points: dict[tuple[str, str], dict[float, float]] = {}
    for row in rows:
        if not shapes.fits(row.get("step"), (int, float)):
            continue
        for name, value in row.items():
            if isinstance(value, int | float) and name not in ("step", "stage"):
                points.setdefault((str(row.get("stage")), name), {})[float(row["step"])] = float(value)
    for (stage, name), known in points.items():
        if stage in curves:
            steps = sorted(known)
            curves[stage][name] = series_of(steps, [known[step] for step in steps])
    return curves


def _lines(path: Path, notes: list[str]) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        return read_jsonl(path)
    except DataError as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return []


def _findings(lines: Sequence[Record], notes: list[str]) -> Iterator[Finding]:
    """Those of findings.jsonl that are whole; the others are counted."""
    bad = 0
    for line in lines:
        if line.get("record") != "finding":
            continue
        try:
            finding = finding_of_record(line) if shapes.fits(line, shapes.FINDING) else None
        except (KeyError, TypeError):
            finding = None
        bad += finding is None
        if finding is not None:
            yield finding
    if bad:
        notes.append(f"{bad} findings of {FINDINGS_FILE} are not as the doctor writes them: left out")


def _actions(lines: Sequence[Record]) -> Iterator[Record]:
    """What the doctor did, mere warnings aside."""
    for line in lines:
        is_whole = shapes.fits(line, shapes.ACTION) and set(shapes.ACTION) <= set(line)
        if line.get("record") == "action" and is_whole and line["policy"] != "warn":
            yield line


def _record(path: Path, shape: dict[str, Any], notes: list[str]) -> Record:
    value = _json(path, notes) if path.exists() else None
    if value is None:
        return {}
    if not isinstance(value, dict) or not shapes.fits(value, shape):
        notes.append(f"{path.name} is not as a run writes it: left out")
        return {}
    return value


def _json(path: Path, notes: list[str]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return None


def _samples(folder: Path, notes: list[str]) -> Iterator[tuple[int, Sequence[Record]]]:
    for path in _of_steps(folder, ".json"):
        rows = _json(path, notes)
        if isinstance(rows, list):
            yield _step(path), [row for row in rows if isinstance(row, dict)]


def _scores(folder: Path, notes: list[str]) -> Iterator[tuple[int, Floats]]:
    for path in _of_steps(folder, ".parquet"):
        try:
            values = pq.read_table(path, columns=["score"])["score"].to_numpy()
        except (OSError, pa.ArrowException, KeyError) as error:
            notes.append(f"{path.name} cannot be read: {error}")
            continue
        yield _step(path), np.asarray(values, dtype=np.float64)


def _of_steps(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"step-*{suffix}") if path.stem.removeprefix("step-").isdecimal())


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))
