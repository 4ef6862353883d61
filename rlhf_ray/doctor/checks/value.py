"""The critic: explained variance, loss, clip."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, above_level, limits_of
from rlhf_ray.doctor.findings import Symptom
from rlhf_ray.doctor.robust import Limit
from rlhf_ray.doctor.rules import Rule


def explained_variance(case: Case, rule: Rule) -> Symptom | None:
    """1 - Var(R - V) / Var(R) below limits, after a warm-up."""
    whole = case.get("val/explained_variance")
    series = whole.between(rule["warm_up"] + 1, np.inf)
    limits = tuple(
        Limit(severity=limit.severity, value=-limit.value, persistence=limit.persistence) for limit in limits_of(rule)
    )
    return above(
        series,
        -series.values,
        limits,
        metric="val/explained_variance",
        summary="the critic predicts worse than a constant",
        sign=-1.0,
    )


def loss_rise(case: Case, rule: Rule) -> Symptom | None:
    """Value loss above its recent level."""
    return above_level(case.get("loss/value_avg"), rule, metric="loss/value_avg", summary="the value loss rises")


def clip(case: Case, rule: Rule) -> Symptom | None:
    """Share of tokens whose value clip binds."""
    series = case.get("val/clipfrac_avg")
    return above(
        series,
        series.values,
        limits_of(rule),
        metric="val/clipfrac_avg",
        summary="the value clip binds on many tokens",
    )
