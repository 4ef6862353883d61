"""Policy instability: clip fraction, approximate KL, ratio, loss."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, above_level, limits_of
from rlhf_ray.doctor.findings import Symptom
from rlhf_ray.doctor.rules import Rule


def clip_fraction(case: Case, rule: Rule) -> Symptom | None:
    """Share of tokens whose clip binds."""
    series = case.get("policy/clipfrac_avg")
    return above(
        series,
        series.values,
        limits_of(rule),
        metric="policy/clipfrac_avg",
        summary="the clip binds on many tokens: the updates are too large",
    )


def approx_kl(case: Case, rule: Rule) -> Symptom | None:
    """KL between the policy before and after an update."""
    series = case.get("policy/approxkl_avg")
    return above(
        series,
        series.values,
        limits_of(rule),
        metric="policy/approxkl_avg",
        summary="single updates move the policy far",
    )


def ratio(case: Case, rule: Rule) -> Symptom | None:
    """Mean ratio of new to old probabilities, above a limit or below its inverse."""
    series = case.get("val/ratio")
    with np.errstate(divide="ignore"):
        distance = np.where(series.values > 0, np.maximum(series.values, 1.0 / series.values), np.inf)
    return above(series, distance, limits_of(rule), metric="val/ratio", summary="the mean ratio leaves 1")


def loss_rise(case: Case, rule: Rule) -> Symptom | None:
    """A positive policy loss above its recent size."""
    return above_level(case.get("loss/policy_avg"), rule, metric="loss/policy_avg", summary="the policy loss rises")
