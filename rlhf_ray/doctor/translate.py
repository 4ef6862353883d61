"""From columns under their own names to a RunLog under ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rlhf_ray.doctor.derive import with_derived
from rlhf_ray.doctor.names import STAGES, Taken, is_metric, stage_of, step_column, take
from rlhf_ray.doctor.names_table import SETTINGS
from rlhf_ray.doctor.numbers import number_of
from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.doctor.runlog import Column, Floats, RunLog, Series, StageLog
from rlhf_ray.errors import DataError

_SHOWN = 12  # names in a message
_PROMPTS, _ANSWERS = ("prompt", "query", "question"), ("answer", "response", "completion")  # columns of text
_MOST_COLUMNS = 20_000


def run_log(raw: RawLog, *, source: str, given: Mapping[str, str]) -> RunLog:
    """Choose columns, put steps in order, keep the last of what was written twice.

    Raises DataError where nothing can be read, ConfigError for a --map that does not fit.
    """
    numeric = {name: column for name, column in raw.columns.items() if column.values}
    if not raw.num_rows:
        raise DataError(f"{source} has no rows; a log has one row a step, with a name for each column")
    if not numeric:
        raise DataError(f"{source} has no number in any of its {raw.num_rows} rows")
    if len(numeric) > _MOST_COLUMNS:
        raise DataError(f"{source} has {len(numeric)} columns; at most {_MOST_COLUMNS} are read: is it on its side?")
    words = [name for name in (*_PROMPTS, *_ANSWERS) if name in raw.columns and raw.columns[name].num_texts]
    if set(words) & set(_PROMPTS) and set(words) & set(_ANSWERS):
        raise DataError(
            f"{source} holds answers ({', '.join(words)}), not metrics: give the directory of the run, or its log"
        )
    step_name = step_column({name: len(column.values) for name, column in numeric.items()}, given, raw.num_rows)
    metrics = [name for name in numeric if name != step_name and is_metric(name)]
    taken = take(metrics, {theirs: ours for theirs, ours in given.items() if ours != "step"})
    if not taken:
        raise DataError(
            f"{source} has no known column{_of(metrics)}. Say what one is: --map 'THEIRS=objective/scores'{_texts(raw)}"
        )
    steps = _steps(raw, step_name)
    notes = [*raw.notes, *_notes_on_steps(raw, step_name, steps), *_notes_on_text(raw, taken)]
    stages, repeated = _stages(raw, steps, taken)
    if repeated:
        notes.append(f"{repeated} steps were written more than once (a resumed run): the last value counts")
    if not stages:
        raise DataError(f"{source}: no row has both a step and a number in a known column")
    notes += _notes_on_gaps(stages)
    columns = [
        Column(theirs=name, ours=taken[name].ours if name in taken else None, origin=_origin(name, taken))
        for name in metrics
    ]
    log = RunLog(
        source=source,
        format=raw.format,
        stages=stages,
        settings=_settings(raw),
        columns=tuple(columns),
        rules=None if raw.rules is None else Path(raw.rules),
        notes=tuple(notes),
    )
    return with_derived(log)


def _steps(raw: RawLog, name: str | None) -> Floats:
    """The step of every row; NaN where it has none; the row's number where the log counts none."""
    if name is None:
        return np.arange(1, raw.num_rows + 1, dtype=np.float64)
    steps = np.full(raw.num_rows, np.nan)
    column = raw.columns[name]
    steps[np.frombuffer(column.rows, dtype=np.int64)] = np.frombuffer(column.values, dtype=np.float64)
    steps[~np.isfinite(steps)] = np.nan
    return steps


def _stages(raw: RawLog, steps: Floats, taken: Mapping[str, Taken]) -> tuple[tuple[StageLog, ...], int]:
    tags = np.array([STAGES.index(stage) if stage in STAGES else -1 for stage in raw.stages])
    series: dict[str, dict[str, Series]] = {stage: {} for stage in STAGES}
    nonfinite: dict[str, dict[str, Floats]] = {stage: {} for stage in STAGES}
    repeated: set[float] = set()
    for name, what in taken.items():
        rows = np.frombuffer(raw.columns[name].rows, dtype=np.int64)
        values = np.frombuffer(raw.columns[name].values, dtype=np.float64)
        homes = np.where(tags[rows] >= 0, tags[rows], STAGES.index(stage_of(what.ours)))
        for home in np.unique(homes):
            here = (homes == home) & np.isfinite(steps[rows])
            ordered, numbers, twice = _last_of_each(steps[rows][here], values[here])
            repeated |= twice
            finite = np.isfinite(numbers)
            if finite.any():
                series[STAGES[home]][what.ours] = Series(steps=ordered[finite], values=numbers[finite])
            if not finite.all():
                nonfinite[STAGES[home]][what.ours] = ordered[~finite]
    logs = [StageLog(stage=stage, series=series[stage], nonfinite=nonfinite[stage]) for stage in STAGES]
    return tuple(log for log in logs if log.series or log.nonfinite), len(repeated)


def _last_of_each(steps: Floats, values: Floats) -> tuple[Floats, Floats, set[float]]:
    """Ascending distinct steps with the value written last, and the steps written more than once."""
    order = np.argsort(steps, kind="stable")
    ordered, numbers = steps[order], values[order]
    last = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, dtype=np.bool_)
    return ordered[last], numbers[last], set(ordered[~last].tolist())


def _notes_on_steps(raw: RawLog, name: str | None, steps: Floats) -> list[str]:
    notes = []
    if name is None:
        notes.append("no column counts steps: rows are numbered from 1")
    without = int(np.isnan(steps).sum())
    if without:
        notes.append(f"{without} rows have no step: left out")
    known = steps[np.isfinite(steps)]
    if len(raw.stages) and not any(raw.stages) and (np.diff(known) < 0).any():
        notes.append("steps are not in order: sorted")
    return notes


def _notes_on_gaps(stages: tuple[StageLog, ...]) -> list[str]:
    notes = []
    for stage in stages:
        steps = stage.steps
        gaps = np.diff(steps)
        if len(gaps) >= 4 and gaps.max() > 5 * np.median(gaps):
            place = int(gaps.argmax())
            notes.append(f"{stage.stage}: nothing was logged between steps {steps[place]:g} and {steps[place + 1]:g}")
    return notes


def _notes_on_text(raw: RawLog, taken: Mapping[str, Taken]) -> list[str]:
    return [
        f"{name}: {raw.columns[name].num_texts} cells are not numbers ({raw.columns[name].text!r}): left out"
        for name in taken
        if raw.columns[name].num_texts
    ]


def _settings(raw: RawLog) -> dict[str, float]:
    """What the log's own configuration says, under our keys."""
    settings: dict[str, float] = {}
    for name, value in raw.settings.items():
        number = None if isinstance(value, str) else number_of(value)
        key = SETTINGS.get(name, SETTINGS.get(name.rpartition(".")[2]) if "." not in name else None)
        if number is not None and np.isfinite(number):
            settings[key or name] = number
    rate = settings.get("learning_rate")
    for stage in ("algorithm", "sft", "reward_model") if rate is not None and "algorithm.kl_coef" in settings else ():
        settings.setdefault(f"{stage}.learning_rate", rate or 0.0)
    if "algorithm.learning_rate" in settings:
        settings.setdefault("algorithm.critic_learning_rate", settings["algorithm.learning_rate"])
    return settings


def _origin(name: str, taken: Mapping[str, Taken]) -> str:
    return taken[name].origin if name in taken else ""


def _of(metrics: list[str]) -> str:
    return f": {_listed(metrics)}" if metrics else " with a number"


def _texts(raw: RawLog) -> str:
    """The columns that hold words alone, with their first."""
    words = [f"{name} ({column.text!r})" for name, column in raw.columns.items() if not column.values]
    return f". Text where numbers are looked for: {_listed(words)}" if words else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
