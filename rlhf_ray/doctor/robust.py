"""Robust statistics of short, noisy series: medians, median absolute deviations, persistence, shifts, trends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rlhf_ray.doctor.findings import Evidence, Severity
from rlhf_ray.doctor.runlog import Flags, Floats, Series

_SIGMA = 1.4826  # of a normal distribution, in median absolute deviations
_SHORT = 7  # points; in a shorter log that counts steps in larger strides, each stands for many updates


@dataclass(frozen=True, kw_only=True)
class Run:
    """A persistent stretch."""

    first: int
    end: int | None  # the point after its last; None: it lasts to the end


@dataclass(frozen=True, kw_only=True)
class Limit:
    """From where on a value counts, and for how long it must."""

    severity: Severity
    value: float
    persistence: int


def needed(steps: Floats, persistence: float) -> int:
    """How many bad points make a run: `persistence`; 2 where few points stand for many steps each.

    Long logs ask the same question more often: one more for every tenfold beyond 100 points, unless one is enough.
    """
    if persistence <= 1:
        return 1
    if 1 < len(steps) < _SHORT and np.median(np.diff(steps)) > 1:
        return min(2, int(persistence))
    return int(persistence) + max(0, int(np.log10(max(len(steps), 1) / 100.0)))


def persistent(bad: Flags, least: int) -> Run | None:
    """The first stretch in which `least` of `least` + 2 neighbours are bad (2 of 2 for 2), to its end if it has one."""
    if not bad.any():
        return None
    size = len(bad)
    width = least if least <= 2 else least + 2
    counts = np.cumsum(np.concatenate([np.zeros(width, dtype=np.int64), bad]))
    confirmed = np.flatnonzero(bad & (counts[width:] - counts[:-width] >= least))
    if not len(confirmed):
        return None
    marks = np.flatnonzero(bad)
    first = int(marks[marks >= confirmed[0] - width + 1][0])
    after = int(confirmed[-1]) + 1
    return Run(first=first, end=after if size - after >= max(least, 2) else None)


def crossing(series: Series, measure: Floats, limits: tuple[Limit, ...]) -> tuple[dict[Severity, float], Run] | None:
    """Where `measure` (one number a point) is persistently above each limit; None where it is above none.

    Returns the onset step of each severity, and the stretch of the mildest warning (or watch) that is reached.
    """
    runs = {
        limit.severity: persistent(measure > limit.value, needed(series.steps, limit.persistence)) for limit in limits
    }
    reached = {severity: run for severity, run in runs.items() if run is not None}
    if not reached:
        return None
    serious = [severity for severity in reached if severity > Severity.WATCH]
    onsets = {severity: float(series.steps[run.first]) for severity, run in reached.items()}
    return onsets, reached[min(serious or reached)]


def end_step(series: Series, run: Run) -> float | None:
    """The step at which the stretch was over."""
    return None if run.end is None else float(series.steps[run.end])


def start_level(series: Series, num_points: float) -> float:
    """Median of the first points, never of more than half of them."""
    return median(series.values[: max(1, min(int(num_points), (series.size + 1) // 2))])


def median(values: Floats) -> float:
    """Of one row; by sorting, which costs less than np.median on the short rows of a check."""
    return float(_middle(values[None, :])[0])


def noise(values: Floats) -> float:
    """Standard deviation of a point about the trend, from the MAD of neighbours' differences; 0 for few points."""
    if len(values) < _SHORT - 1:
        return 0.0
    steps = np.diff(values)
    return float(_SIGMA * median(np.abs(steps - median(steps))) / np.sqrt(2.0))


def recent(values: Floats, window: float) -> tuple[Floats, Floats]:
    """Median and deviation of up to `window` points before each point; NaN where fewer than 3 are before it.

    The deviation is the scaled MAD; of fewer than 7 points, two of which may be equal, the standard one.
    """
    width = int(window)
    parts = _before(values, width)
    level, spread = _level(values, parts), np.full(len(values), np.nan)
    for place, rows in parts:
        here = slice(place, place + len(rows))
        if place < min(width, _SHORT):
            spread[here] = np.std(rows, ddof=1)
        else:
            spread[here] = _SIGMA * _middle(np.abs(rows - level[here, None]))
    return level, spread


def _before(values: Floats, width: int) -> list[tuple[int, Floats]]:
    """A place, and the points before it and each of those after it: growing rows at first, then `width` wide ones."""
    size = len(values)
    growing = [(place, values[None, :place]) for place in range(3, min(width, size))]
    return growing + ([(width, sliding_window_view(values[:-1], width))] if size > width else [])


def _level(values: Floats, parts: list[tuple[int, Floats]]) -> Floats:
    level = np.full(len(values), np.nan)
    for place, rows in parts:
        level[place : place + len(rows)] = _middle(rows)
    return level


def _middle(windows: Floats) -> Floats:
    """The median of each row."""
    ordered, width = np.sort(windows, axis=1), windows.shape[1]
    return 0.5 * (ordered[:, (width - 1) // 2] + ordered[:, width // 2])


def shift(series: Series, numbers: Mapping[str, float]) -> tuple[Floats, Floats]:
    """How many times the size before it each point and its `persistence` - 1 followers at least are; and that size.

    0 where the followers are not yet there, or not `spread` deviations above the level.
    """
    level, deviation = recent(series.values, numbers["window"])
    sizes = np.abs(series.values)
    size = level if (series.values >= 0).all() else _level(sizes, _before(sizes, int(numbers["window"])))
    width = needed(series.steps, numbers["persistence"])
    if series.size < width:
        return np.zeros(series.size), size
    lasting = np.concatenate([sliding_window_view(series.values, width).min(axis=1), np.full(width - 1, -np.inf)])
    with np.errstate(invalid="ignore", divide="ignore"):
        times = lasting / np.where(size > 0, size, np.nan)
        clear = lasting > level + numbers["spread"] * deviation
    return np.where(clear, np.nan_to_num(times, nan=0.0, posinf=0.0, neginf=0.0), 0.0), size


def before_and_after(series: Series, metric: str, onset: float, *, limit: float | None) -> Evidence:
    """Medians of up to 5 points before the onset and 3 from it on."""
    before = series.values[series.steps < onset][-5:]
    after = series.values[series.steps >= onset][:3]
    return Evidence(
        metric=metric,
        before=median(before) if len(before) else None,
        after=median(after) if len(after) else float(series.values[-1]),
        last=float(series.values[-1]),
        limit=limit,
    )


def trend(series: Series) -> str:
    """rising, falling, flat or flattening: by ranks against the steps, in short series by their thirds.

    Flattening: rising, but in its last third by less than half of its mean pace.
    """
    if series.size < 2:
        return "flat"
    thirds = np.array_split(series.values, min(3, series.size))
    first, last = float(np.median(thirds[0])), float(np.median(thirds[-1]))
    if series.size > _SHORT:
        clear = abs(rank_correlation(series.values)) * np.sqrt(series.size - 1.0) > 2.0
    else:
        clear = abs(last - first) > max(0.02 * float(np.ptp(series.values)), 1e-3 * abs(first))
    if not clear or last == first:
        return "flat"
    halves = np.array_split(thirds[-1], 2)
    late = float(np.median(halves[-1]) - np.median(halves[0])) if series.size > _SHORT else last - first
    pace = (last - first) / (2.0 * series.size / 3.0) * len(halves[0])
    if last > first and late < 0.5 * pace:
        return "flattening"
    return "rising" if last > first else "falling"


def rank_correlation(values: Floats) -> float:
    """Spearman's, of the values with their order; 0 where nothing varies."""
    if np.ptp(values) == 0:
        return 0.0
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])
