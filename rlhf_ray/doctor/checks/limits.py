"""The usual shape of a check: a metric, or what it is of its own start or recent level, above limits that must last."""

from __future__ import annotations

from dataclasses import replace

from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import Limit, before_and_after, crossing, end_step, shift, start_level
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Floats, Series

_SEVERITIES = {"watch": Severity.WATCH, "warning": Severity.WARNING, "critical": Severity.CRITICAL}


def limits_of(rule: Rule, *, prefix: str = "") -> tuple[Limit, ...]:
    """The limits among a rule's numbers: watch, warning, critical, with the persistence of each."""
    return tuple(
        Limit(
            severity=severity,
            value=rule[prefix + word],
            persistence=int(rule.numbers.get(f"{word}_persistence", rule["persistence"])),
        )
        for word, severity in _SEVERITIES.items()
        if prefix + word in rule.numbers
    )


def above(
    series: Series, measure: Floats, limits: tuple[Limit, ...], *, metric: str, summary: str, sign: float = 1.0
) -> Symptom | None:
    """`measure` above limits. `summary` is completed with the metric's values before and after.

    `sign` -1: measure and limits are the metric's with the sign turned, so that the check is for values below.
    The limit is shown where the measure is the metric itself.
    """
    found = crossing(series, measure, limits) if series.size else None
    if found is None:
        return None
    onsets, run = found
    first = float(series.steps[run.first])
    mildest = min(limit.value for limit in limits if limit.severity == _mildest(onsets))
    shown = sign * mildest if sign * measure[run.first] == series.values[run.first] else None
    return Symptom(
        onsets=onsets,
        until=end_step(series, run),
        summary=summary,
        evidence=(before_and_after(series, metric, first, limit=shown),),
    )


def above_level(series: Series, rule: Rule, *, metric: str, summary: str) -> Symptom | None:
    """The metric stays at a multiple of the level before it: limits are multiples."""
    times, level = shift(series, rule.numbers)
    limits = tuple(Limit(severity=limit.severity, value=limit.value, persistence=1) for limit in limits_of(rule))
    found = above(series, times, limits, metric=metric, summary=summary)
    if found is None:
        return None
    usual = rule["warning"] * float(level[int(series.steps.searchsorted(found.first_step))])
    back = (series.steps > found.first_step) & (series.values < usual)
    still = bool((series.values[-2:] >= usual).any()) or not back.any()
    until = None if still else float(series.steps[back][0])
    return Symptom(onsets=found.onsets, until=until, summary=found.summary, evidence=found.evidence)


def share_of_start(series: Series, rule: Rule) -> Floats:
    """Each point as a share of the start's level; 1 where that is not positive."""
    start = start_level(series, rule["baseline"]) if series.size else 0.0
    return series.values / start if start > 0 else series.values * 0.0 + 1.0


def with_limit_from_start(symptom: Symptom | None, series: Series, rule: Rule) -> Symptom | None:
    """The limit of a measure that is a share of the start, shown in the metric's own unit."""
    if symptom is None:
        return None
    limit = rule["warning"] * start_level(series, rule["baseline"])
    return replace(symptom, evidence=tuple(replace(item, limit=limit) for item in symptom.evidence))


def _mildest(onsets: dict[Severity, float]) -> Severity:
    serious = [severity for severity in onsets if severity > Severity.WATCH]
    return min(serious or onsets)
