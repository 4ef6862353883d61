"""The KL to the reference: too large, jumping, never moving, negative."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, limits_of
from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import Limit, before_and_after, needed
from rlhf_ray.doctor.rules import Rule

_ANSWER, _TOKEN = "objective/kl", "loss/kl_avg"


def level(case: Case, rule: Rule) -> Symptom | None:
    """KL above limits, in nats per answer, or per token where the log has no other."""
    series = case.get(_ANSWER)
    if not series.size:
        tokens = case.get(_TOKEN)
        limits = limits_of(rule, prefix="per_token_")
        return above(tokens, tokens.values, limits, metric=_TOKEN, summary="the KL per token is high")
    length = case.get("response/length_mean").at(series.steps)
    short = np.isnan(length) | (series.values > rule["long_answer_per_token"] * length)
    measure = series.values if short.all() else np.where(short, series.values, 0.0)
    return above(series, measure, limits_of(rule), metric=_ANSWER, summary="the KL to the reference is high")


def jump(case: Case, rule: Rule) -> Symptom | None:
    """The KL leaves its own course: the records from a point on against the three before it."""
    series = case.get(_ANSWER)
    after = needed(series.steps, rule["persistence"])
    if series.size < 3 + after:
        return None
    windows = sliding_window_view(series.values, 3 + after)
    past, coming = windows[:, :3], windows[:, 3:]
    old, new = np.median(past, axis=1), np.median(coming, axis=1)
    rise_before = np.maximum((past[:, -1] - past[:, 0]) / 2.0, 0.0)
    rise_after = (coming[:, -1] - past[:, -1]) / after
    least = np.maximum(np.maximum(rule["floor"], past.max(axis=1)), rule["factor"] * old)
    jumped = np.flatnonzero((coming.min(axis=1) > least) & (rise_after > rule["slope"] * rise_before))
    if not len(jumped):
        return None
    place = int(jumped[0])
    onset = float(series.steps[place + 3])
    back = (series.steps > onset) & (series.values < rule["factor"] * old[place])
    still = bool((series.values[-2:] >= rule["factor"] * old[place]).any())
    return Symptom(
        onsets={Severity.CRITICAL if new[place] > rule["critical"] else Severity.WARNING: onset},
        until=None if still or not back.any() else float(series.steps[back][0]),
        summary=f"the KL jumps: {rise_after[place]:.3g} nats a record, {rise_before[place]:.3g} before",
        evidence=(before_and_after(series, _ANSWER, onset, limit=None),),
    )


def target(case: Case, rule: Rule) -> Symptom | None:
    """KL above a multiple of the target that beta adapts to."""
    wanted = case.settings.get("algorithm.kl_target")
    if not wanted:
        return None
    series = case.get(_ANSWER)
    limit = Limit(severity=Severity.WARNING, value=rule["factor"] * wanted, persistence=int(rule["persistence"]))
    return above(
        series, series.values, (limit,), metric=_ANSWER, summary=f"the KL stays far above its target of {wanted:g} nats"
    )


def stuck(case: Case, rule: Rule) -> Symptom | None:
    """KL at zero after many updates."""
    series = case.get(_ANSWER, _TOKEN)
    metric = case.log.first_name(_ANSWER, _TOKEN)
    nats = rule["nats"] if metric == _ANSWER else rule["per_token"]
    if series.size < rule["points"] or np.abs(series.values).max() > 10 * nats:
        return None
    if np.abs(np.median(series.values[series.size // 2 :])) > nats:
        return None
    onset = float(series.steps[0])
    return Symptom(
        onsets={Severity.WARNING: onset},
        until=None,
        summary="nothing moves: the KL to the reference is about 0 throughout",
        evidence=(before_and_after(series, metric, onset, limit=nats),),
    )


def negative(case: Case, rule: Rule) -> Symptom | None:
    """Mean KL below zero by more than sampling noise."""
    per_token = not case.get(_ANSWER).size
    series = case.get(_ANSWER, _TOKEN)
    limits = limits_of(rule, prefix="per_token_" if per_token else "")
    metric = case.log.first_name(_ANSWER, _TOKEN)
    return above(series, -series.values, limits, metric=metric, summary="the mean KL is negative", sign=-1.0)
