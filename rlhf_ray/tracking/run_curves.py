"""A finished or failed run as curves: one array a metric, for comparing many runs of many steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json

from rlhf_ray.errors import DataError
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.files.lock import in_use
from rlhf_ray.tracking.records import RunStatus, read_run

KILLED = "killed"
BLOCK_BYTES = 8 << 20
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One metric where it was measured; a value that was not finite is NaN."""

    steps: Array
    values: Array

    @property
    def last(self) -> float | None:
        """The newest finite value."""
        return self.before(np.inf)

    def before(self, step: float) -> float | None:
        """The newest finite value of a step lower than this."""
        finite = self.values[np.isfinite(self.values) & (self.steps < step)]
        return float(finite[-1]) if len(finite) else None


@dataclass(frozen=True, kw_only=True)
class RunCurves:
    """One run."""

    folder: Path
    run_id: str
    seed: int
    status: str  # of run.json; killed, where that says running and no process is at it
    error: str | None
    settings: dict[str, Any]
    curves: dict[str, Curve]  # of PPO, and the supervised stages' own metrics

    def last(self, name: str) -> float | None:
        """The newest value of a metric."""
        return self.curves[name].last if name in self.curves else None


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run directories among the paths and directly below them. Raises DataError for a path without any."""
    found: dict[Path, None] = {}
    for path in paths:
        below = [path] if (path / "run.json").is_file() else sorted(file.parent for file in path.glob("*/run.json"))
        if not below:
            raise DataError(f"{path} is no run and holds none: accepted are run directories and folders of them")
        found |= dict.fromkeys(one.resolve() for one in below)
    return list(found)


def read_curves(folder: Path) -> RunCurves:
    """All numbers of a run. Raises DataError where its records cannot be read."""
    run = read_run(folder)
    file = folder / "metrics.jsonl"
    table = read_table(file) if file.is_file() and file.stat().st_size else pa.table({})
    try:
        return RunCurves(
            folder=folder,
            run_id=str(run["id"]),
            seed=int(run["seed"]),
            status=KILLED if run["status"] == RunStatus.RUNNING and not in_use(folder) else str(run["status"]),
            error=run["error"],
            settings=dict(run["config"]),
            curves=curves_of(table),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / 'run.json'} is no run's record: {type(error).__name__} {error}") from error


def read_table(file: Path) -> pa.Table:
    """metrics.jsonl as columns. What Arrow does not take (a line that a crash cut) is read line by line."""
    options = json.ReadOptions(block_size=BLOCK_BYTES)
    try:
        return json.read_json(file, read_options=options)
    except pa.ArrowInvalid:
        return pa.Table.from_pylist(_with_all_keys(read_jsonl(file)))


def curves_of(table: pa.Table) -> dict[str, Curve]:
    """One curve a metric of a stage; of a metric that several stages record, PPO's."""
    curves: dict[str, Curve] = {}
    if "stage" not in table.column_names:
        return curves
    encoded = table["stage"].combine_chunks().dictionary_encode()
    stages, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    steps = table["step"].to_numpy().astype(np.float64)
    columns = {name: found for name in table.column_names if (found := _numbers(table, name)) is not None}
    for stage in sorted(stages, key=lambda stage: stage == "ppo"):
        rows = codes == stages.index(stage)
        for name, (values, measured) in columns.items():
            taken = measured & rows
            if taken.any():
                curves[name] = Curve(steps=steps[taken], values=values[taken])
    return curves


def _numbers(table: pa.Table, name: str) -> tuple[Array, NDArray[np.bool_]] | None:
    """Values, NaN where there is none, and where something was measured, be it not finite."""
    column = table[name]
    if name in ("stage", "step") or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    measured = ~np.isnan(values)
    flag = f"{name}/nonfinite"
    if flag in table.column_names:
        measured |= table[flag].is_valid().to_numpy(zero_copy_only=False)
    return values, measured


def _with_all_keys(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in keys} for row in rows]
