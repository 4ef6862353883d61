"""Mode collapse: entropy, variety, repetition, length."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, limits_of, share_of_start, with_limit_from_start
from rlhf_ray.doctor.findings import Symptom
from rlhf_ray.doctor.robust import Limit, noise, start_level
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Series

_ENTROPY = "policy/entropy_avg"
_VARIETY = ("response/distinct_2", "response/distinct_1", "eval/distinct_2")
_LENGTH = ("response/length_mean", "eval/length_mean")
_REPETITION = ("response/repetition_4gram", "eval/repetition_4gram")


def entropy(case: Case, rule: Rule) -> Symptom | None:
    """Entropy per token against its start."""
    return _below_share(case.get(_ENTROPY), rule, metric=_ENTROPY, what="the entropy per token")


def entropy_floor(case: Case, rule: Rule) -> Symptom | None:
    """Entropy per token near zero."""
    series = case.get(_ENTROPY)
    return above(
        series,
        -series.values,
        _negated(limits_of(rule)),
        metric=_ENTROPY,
        summary="the entropy per token is near zero",
        sign=-1.0,
    )


def distinct(case: Case, rule: Rule) -> Symptom | None:
    """Different n-grams among the answers against their start."""
    return _below_share(case.get(*_VARIETY), rule, metric=case.log.first_name(*_VARIETY), what="the answers' variety")


def repetition(case: Case, rule: Rule) -> Symptom | None:
    """Repeated 4-grams within an answer, above limits and clearly above the start."""
    series = case.get(*_REPETITION)
    start = start_level(series, rule["baseline"]) if series.size >= 2 else 0.0
    least = start + rule["above_start"]
    limits = tuple(
        Limit(severity=limit.severity, value=max(limit.value, least), persistence=limit.persistence)
        for limit in limits_of(rule)
    )
    metric = case.log.first_name(*_REPETITION)
    return above(series, series.values, limits, metric=metric, summary="answers repeat themselves")


def length(case: Case, rule: Rule) -> Symptom | None:
    """Mean length against its start, where it is below it by more than noise."""
    series = case.get(*_LENGTH)
    start = start_level(series, rule["baseline"]) if series.size else 0.0
    share = np.where(start - series.values > rule["noise"] * noise(series.values), share_of_start(series, rule), 1.0)
    summary = f"the answers have shrunk below {rule['warning']:.0%} of their length at the start ({start:.3g} tokens)"
    found = above(series, -share, _negated(limits_of(rule)), metric=case.log.first_name(*_LENGTH), summary=summary)
    return with_limit_from_start(found, series, rule)


def _below_share(series: Series, rule: Rule, *, metric: str, what: str) -> Symptom | None:
    start = start_level(series, rule["baseline"])
    summary = f"{what} has fallen below {rule['warning']:.0%} of its start ({start:.3g})"
    found = above(series, -share_of_start(series, rule), _negated(limits_of(rule)), metric=metric, summary=summary)
    return with_limit_from_start(found, series, rule)


def _negated(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    return tuple(Limit(severity=limit.severity, value=-limit.value, persistence=limit.persistence) for limit in limits)
