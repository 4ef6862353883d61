"""Many runs side by side: groups that differ by the seed alone, their figures with intervals, who leaves the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, pearsonr, trim_mean

from rlhf_ray.config.effective import effective_settings
from rlhf_ray.tracking.run_curves import Array, RunCurves

ALL = "all runs"  # the name of a group that is alone
CONFIDENCE = 0.95
RESAMPLES = 2000
REWARD, KL = WATCHED = "objective/rlhf_reward", "objective/kl"  # drawn for all seeds, and watched for runs that leave
SCORES, GOLD_SCORE = "objective/scores", "eval/gold_score"
ACCURACY, WIN_RATE = "reward_model/val_accuracy", "eval/win_rate"  # what a reward model is worth, and what came of it
FAR = 5.0  # spreads of the others from their median
SHARE = 0.25  # of the way that the others' median goes, at least: three seeds may agree by chance
LASTING = 3  # steps in a row
_MIN_OTHERS = 2
_MIN_PAIRS = 3


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs whose settings differ by the seed alone."""

    name: str  # what sets it apart from the other groups
    runs: tuple[RunCurves, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The last value of a metric over the runs of a group."""

    metric: str
    values: tuple[float | None, ...]  # by run
    mean: float | None
    iqm: float | None  # inter-quartile mean: of the middle half
    low: float | None  # ends of the bootstrap interval of the mean
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """A run that is not where the others of its group are."""

    run_id: str
    seed: int
    metric: str
    iteration: int
    back: int | None  # the iteration from which on it is with the others again; None: it never is
    value: float | None  # None: not finite


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Whether a more accurate reward model made a better policy."""

    pearson: float
    p_value: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that is said about the runs."""

    groups: tuple[Group, ...]
    figures: Mapping[str, tuple[Figure, ...]]  # by group
    leaving: tuple[Leaving, ...]
    failed: tuple[RunCurves, ...]  # or stopped, or killed
    unreadable: tuple[str, ...]  # why a run is left out
    differing: Mapping[str, tuple[Any, ...]]  # setting -> value of each run
    correlation: Correlation | None

    @property
    def runs(self) -> list[RunCurves]:
        """In the order of the groups."""
        return [run for group in self.groups for run in group.runs]


def compare(runs: Sequence[RunCurves], *, unreadable: Sequence[str]) -> Comparison:
    """Group, measure, watch. `unreadable`: what was wrong with further runs."""
    differing = differing_settings(runs)
    groups = grouped(runs, differing)
    return Comparison(
        groups=groups,
        figures={group.name: tuple(figures(group.runs)) for group in groups},
        leaving=tuple(found for group in groups for found in leaving(group.runs)),
        failed=tuple(run for run in runs if run.status not in ("finished", "running")),
        unreadable=tuple(unreadable),
        differing=differing_settings([run for group in groups for run in group.runs]),
        correlation=correlation(runs),
    )


def differing_settings(runs: Sequence[RunCurves]) -> dict[str, tuple[Any, ...]]:
    """Settings, by dotted key, that are not the same in all runs."""
    trees = [effective_settings(run.settings) for run in runs]
    keys = dict.fromkeys(key for tree in trees for key in tree)
    columns = {key: tuple(tree.get(key) for tree in trees) for key in keys}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def grouped(runs: Sequence[RunCurves], differing: Mapping[str, Sequence[Any]]) -> tuple[Group, ...]:
    """By all settings but the seed, in the order they come; the runs of a group by seed."""
    members: dict[str, list[RunCurves]] = {}
    for index, run in enumerate(runs):
        name = " ".join(f"{key}={values[index]}" for key, values in differing.items() if key != "seed")
        members.setdefault(name or ALL, []).append(run)
    return tuple(
        Group(name=name, runs=tuple(sorted(found, key=lambda run: run.seed))) for name, found in members.items()
    )


def figures(runs: Sequence[RunCurves]) -> Iterator[Figure]:
    """Every metric's last value, over the runs that finished."""
    done = [run for run in runs if run.status == "finished"]
    for metric in sorted({name for run in runs for name in run.curves}):
        known = np.array([value for run in done if (value := run.last(metric)) is not None])
        low, high = interval(known)
        yield Figure(
            metric=metric,
            values=tuple(run.last(metric) for run in runs),
            mean=float(known.mean()) if len(known) else None,
            iqm=float(trim_mean(known, 0.25)) if len(known) else None,
            low=low,
            high=high,
        )


def interval(values: Array) -> tuple[float | None, float | None]:
    """Percentile bootstrap of the mean over seeds, always with the same draws; nothing to say about less than two."""
    if len(values) < 2:
        return None, None
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = bootstrap(
        (values,), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, method="percentile", rng=0
    ).confidence_interval
    return float(found.low), float(found.high)


def leaving(runs: Sequence[RunCurves]) -> Iterator[Leaving]:
    """The first iteration at which a run is far from the others, for several in a row, or not finite."""
    for metric in WATCHED:
        having = [run for run in runs if metric in run.curves]
        if not having:
            continue
        steps = np.unique(np.concatenate([run.curves[metric].steps for run in having]))
        values = np.full((len(having), len(steps)), np.nan)
        for row, run in zip(values, having, strict=True):
            row[np.searchsorted(steps, run.curves[metric].steps)] = run.curves[metric].values
        for index, run in enumerate(having):
            away = _away(values, index, measured=np.isin(steps, run.curves[metric].steps))
            if away.any():
                at, last = np.flatnonzero(away)[[0, -1]]
                value = values[index, at]
                yield Leaving(
                    run_id=run.run_id,
                    seed=run.seed,
                    metric=metric,
                    iteration=int(steps[at]),
                    back=int(steps[last + 1]) if last + 1 < len(steps) else None,
                    value=float(value) if np.isfinite(value) else None,
                )


def correlation(runs: Sequence[RunCurves]) -> Correlation | None:
    """Reward-model accuracy on held-out pairs against the final win rate, over the runs that finished."""
    pairs = [(run.last(ACCURACY), run.last(WIN_RATE)) for run in runs if run.status == "finished"]
    pairs = [pair for pair in pairs if None not in pair]
    accuracies, rates = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    if len(pairs) < _MIN_PAIRS or np.ptp(accuracies) == 0 or np.ptp(rates) == 0:
        return None
    found = pearsonr(accuracies, rates)
    return Correlation(pearson=float(found.statistic), p_value=float(found.pvalue), pairs=len(pairs))


def _away(values: Array, index: int, *, measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At which steps a row of [runs, steps] is not with the others: not finite, or far from them for LASTING steps.

    Far is beyond FAR times their spread (scaled median distance from their median), which is at least the median jump
    between two steps, and beyond SHARE of the way their median goes: a group that agrees by chance is no yardstick.
    """
    broken: NDArray[np.bool_] = measured & ~np.isfinite(values[index])
    others = np.delete(values, index, axis=0)
    enough = np.isfinite(others).sum(axis=0) >= _MIN_OTHERS
    far = np.zeros(values.shape[1], dtype=bool)
    if enough.any():
        seen = np.where(np.isfinite(others), others, np.nan)[:, enough]
        centre = np.nanmedian(seen, axis=0)
        spread = 1.4826 * np.nanmedian(np.abs(seen - centre), axis=0)
        jumps = np.abs(np.diff(seen, axis=1))
        noise = float(np.nanmedian(jumps)) if np.isfinite(jumps).any() else 0.0
        limit = np.maximum(FAR * np.maximum(spread, max(noise, 1e-9)), SHARE * np.ptp(centre))
        far[enough] = np.abs(values[index, enough] - centre) > limit
    if len(far) < LASTING:
        return broken
    starts = np.convolve(far, np.ones(LASTING), mode="valid") == LASTING
    lasting: NDArray[np.bool_] = np.convolve(starts, np.ones(LASTING)) > 0
    return np.logical_or(broken, lasting)
