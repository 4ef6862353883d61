"""One JSON value: Hugging Face's trainer_state.json, exported histories as rows or as columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog, flat_settings
from rlhf_ray.errors import DataError

_SUMMARY = ("train_runtime", "train_loss")  # of the last entry: about the whole run, not of its step


def read_json(value: object, path: Path) -> RawLog:
    """Rows from a parsed file. Raises DataError for a shape that holds none."""
    if isinstance(value, Mapping) and isinstance(value.get("log_history"), list):
        return _trainer_state(value, path)
    rows = value
    if isinstance(value, Mapping):
        rows = next((value[name] for name in ("history", "data", "rows") if isinstance(value.get(name), list)), None)
        if rows is None:
            return _columns(value, path)
    raw = RawLog(format="JSON rows")
    raw.add_rows(_objects(rows, path))
    return raw


def _trainer_state(state: Mapping[str, object], path: Path) -> RawLog:
    raw = RawLog(format="Hugging Face trainer_state.json")
    raw.add_rows(row for row in _objects(state["log_history"], path) if not set(_SUMMARY) <= set(row))
    raw.settings = {"max_steps": state.get("max_steps")}
    return raw


def _columns(value: Mapping[str, object], path: Path) -> RawLog:
    """{"step": [1, 2], "loss": [0.5, 0.4]}, or pandas' {"loss": {"0": 0.5, "1": 0.4}}; else one row."""
    columns = {name: list(column.values()) if isinstance(column, Mapping) else column for name, column in value.items()}
    lists = {name: column for name, column in columns.items() if isinstance(column, list)}
    raw = RawLog(format="JSON columns" if lists else "JSON, one row")
    if not lists:
        raw.add_row(flat_settings(value))
        return raw
    longest = max(len(column) for column in lists.values())
    if any(len(column) != longest for column in lists.values()):
        raise DataError(f"{path}: columns of different lengths; each must have one value a step")
    raw.add_rows({name: column[i] for name, column in lists.items()} for i in range(longest))
    return raw


def _objects(rows: object, path: Path) -> list[Mapping[str, object]]:
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"{path}: a JSON list must hold objects, one a step")
    return rows
