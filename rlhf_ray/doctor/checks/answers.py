"""How answers end, and who wrote them: EOS rate, generator against learner, speed."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, above_level, limits_of
from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import Limit, start_level
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Series


def lost_eos(case: Case, rule: Rule) -> Symptom | None:
    """EOS rate below its start, where the start ended answers at all."""
    series = case.get("val/eos_rate")
    start = start_level(series, rule["baseline"]) if series.size else 0.0
    if start < rule["start"]:
        return None
    return above(
        series,
        start - series.values,
        limits_of(rule),
        metric="val/eos_rate",
        summary=f"fewer answers end by themselves than at the start ({start:.0%})",
    )


def kl_mismatch(case: Case, rule: Rule) -> Symptom | None:
    """KL per token between generator and learner."""
    series = case.get("rollout/kl_mismatch")
    return above(
        series,
        np.abs(series.values),
        limits_of(rule),
        metric="rollout/kl_mismatch",
        summary="the generator's probabilities differ from the learner's",
    )


def logprob_gap(case: Case, rule: Rule) -> Symptom | None:
    """Mean distance of log-probs; else the largest, which must also be far above its start."""
    mean, largest = "rollout/logprob_absdiff_mean", "rollout/logprob_absdiff_max"
    series = case.get(mean)
    summary = "log-probs of generator and learner part"
    if series.size:
        return above(series, series.values, limits_of(rule), metric=mean, summary=summary)
    series = case.get(largest)
    start = start_level(series, 3) if series.size else 0.0
    measure = np.where(series.values > rule["max_factor"] * start, series.values, 0.0)
    return above(series, measure, limits_of(rule, prefix="max_"), metric=largest, summary=summary)


def version_lag(case: Case, rule: Rule) -> Symptom | None:
    """Age of the generator's weights, beyond that at the start."""
    series = case.get("rollout/policy_version_lag")
    start = start_level(series, rule["baseline"]) if series.size else 0.0
    limits = tuple(
        Limit(severity=limit.severity, value=start + limit.value - 0.5, persistence=limit.persistence)
        for limit in limits_of(rule)
    )
    return above(
        series,
        series.values,
        limits,
        metric="rollout/policy_version_lag",
        summary="answers come from older weights",
    )


def stalled(case: Case, rule: Rule) -> Symptom | None:
    """Time of an iteration, or the inverse of the throughput, above its recent level."""
    names = ("time/iteration", "throughput/tokens_per_second", "throughput/samples_per_second")
    metric = case.log.first_name(*names)
    series = case.get(*names)
    if metric != names[0]:
        positive = series.values > 0
        series = Series(steps=series.steps[positive], values=1.0 / series.values[positive])
    found = above_level(series, rule, metric="time/iteration", summary="iterations have become slow")
    if found is None or metric == names[0]:
        return found
    (shown,) = found.evidence
    inverse = vars(shown) | {
        "metric": metric,
        "before": None if shown.before is None else 1.0 / shown.before,
        "after": 1.0 / shown.after,
        "last": 1.0 / shown.last,
    }
    return Symptom(
        onsets={Severity.WARNING: found.first_step},
        until=found.until,
        summary=found.summary,
        evidence=(type(shown)(**inverse),),
    )
