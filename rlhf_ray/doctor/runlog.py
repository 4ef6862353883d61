"""What every check reads: a run's metrics under our names, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The finite values of one metric."""

    steps: Floats  # [points], ascending, distinct
    values: Floats  # [points]

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.values)

    def between(self, first: float, last: float) -> Series:
        """The points of the steps first..last, both included."""
        kept = (self.steps >= first) & (self.steps <= last)
        return Series(steps=self.steps[kept], values=self.values[kept])

    def at(self, steps: Floats) -> Floats:
        """The newest value at or before each of `steps`; NaN before the first."""
        places = np.searchsorted(self.steps, steps, side="right") - 1
        return np.where(places >= 0, self.values[np.maximum(places, 0)], np.nan) if self.size else steps * np.nan


def series_of(steps: object, values: object) -> Series:
    """From lists or arrays that are sorted already."""
    return Series(steps=np.asarray(steps, dtype=np.float64), values=np.asarray(values, dtype=np.float64))


EMPTY = series_of([], [])


@dataclass(frozen=True, kw_only=True)
class StageLog:
    """The metrics of one stage."""

    stage: str  # sft, reward_model, dpo or ppo
    series: Mapping[str, Series]  # our metric name -> its finite values
    nonfinite: Mapping[str, Floats]  # our metric name -> the steps at which NaN or an infinity was logged

    def get(self, *names: str) -> Series:
        """The first of these metrics that has a value; empty where none has."""
        return next((self.series[name] for name in names if name in self.series and self.series[name].size), EMPTY)

    def first_name(self, *names: str) -> str:
        """Which metric `get` takes."""
        return next((name for name in names if name in self.series and self.series[name].size), names[0])

    @property
    def steps(self) -> Floats:
        """Every step at which something was logged."""
        parts = [series.steps for series in self.series.values()] + list(self.nonfinite.values())
        return np.unique(np.concatenate(parts)) if parts else EMPTY.steps

    @property
    def has_one_step(self) -> bool:
        """Whether it is a snapshot. A metric that has one point so far, in a log of several steps, makes it none."""
        return all(series.size <= 1 for series in self.series.values()) and len(self.steps) == 1


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column of the log was taken for."""

    theirs: str
    ours: str | None  # None: not used
    origin: str  # our own name, a trainer's name, a name people use, --map, or derived


@dataclass(frozen=True, kw_only=True)
class RunLog:
    """One run."""

    source: str
    format: str
    stages: tuple[StageLog, ...]
    settings: Mapping[str, float]  # key of rlhf_ray/config -> value in force, as far as the log tells
    columns: tuple[Column, ...]
    rules: Path | None  # the file of thresholds that the run itself used
    notes: tuple[str, ...]  # what a reader of the log should know: duplicates, gaps, text, derived columns
