"""NaN, infinities, exploding gradients."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above_level
from rlhf_ray.doctor.findings import Evidence, Severity, Symptom
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.rules_run import GRADIENTS, MUST_BE_FINITE
from rlhf_ray.doctor.runlog import Floats, Series


def nonfinite(case: Case, rule: Rule) -> Symptom | None:
    """The first step at which a number that must be finite is not."""
    found = {
        name: steps
        for name, steps in case.log.nonfinite.items()
        if name in MUST_BE_FINITE and not is_filler(case.get(name), steps, share=rule["filler_share"])
    }
    if not found:
        return None
    first = min(float(steps[0]) for steps in found.values())
    names = sorted(found, key=lambda name: float(found[name][0]))
    last_bad = max(float(steps[-1]) for steps in found.values())
    later = case.log.steps[case.log.steps > last_bad]
    return Symptom(
        onsets={Severity.CRITICAL: first},
        until=float(later[0]) if len(later) >= 3 else None,
        summary=f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not finite",
        evidence=tuple(_evidence(case.get(name), name, float(found[name][0])) for name in names[:3]),
    )


def gradient_explosion(case: Case, rule: Rule) -> Symptom | None:
    """The worst of the gradient norms against their recent levels."""
    found = [
        above_level(case.get(name), rule, metric=name, summary=f"{name} explodes")
        for name in GRADIENTS
        if case.has(name)
    ]
    symptoms = [symptom for symptom in found if symptom is not None]
    return max(symptoms, key=lambda symptom: (symptom.severity, -symptom.first_step), default=None)


def is_filler(series: Series, nonfinite: Floats, *, share: float) -> bool:
    """Whether NaN stands for "not logged here": many of them, between numbers, from the start."""
    if not series.size:
        return False
    often = len(nonfinite) >= share * (series.size + len(nonfinite))
    early = float(np.median(nonfinite)) < series.steps[-1]
    return often and early


def _evidence(series: Series, name: str, step: float) -> Evidence:
    before = series.values[series.steps < step][-5:]
    last = float(series.values[-1]) if series.size and series.steps[-1] > step else float("nan")
    return Evidence(
        metric=name,
        before=float(np.median(before)) if len(before) else None,
        after=float("nan"),
        last=last,
        limit=None,
    )
