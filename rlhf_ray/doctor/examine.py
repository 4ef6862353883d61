"""All checks on one run, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlhf_ray.doctor.checks.case import CEILING, Case
from rlhf_ray.doctor.checks.progress import fit_peak, peak_words
from rlhf_ray.doctor.checks.registry import CHECKS
from rlhf_ray.doctor.facts import CURVES, HEADLINES
from rlhf_ray.doctor.findings import Curve, Diagnosis, Finding, Phase, Severity, Skipped
from rlhf_ray.doctor.phases import phases_of
from rlhf_ray.doctor.reconcile import findings_from
from rlhf_ray.doctor.robust import trend
from rlhf_ray.doctor.rules import Rule, Rules, rules_in_force
from rlhf_ray.doctor.runlog import RunLog, StageLog

_SHAPE = 40  # points of a curve's shape
_PEAK = "over_optimisation.peak"


@np.errstate(over="ignore", invalid="ignore")  # a log may hold any number
def examine(log: RunLog, rules: Rules) -> Diagnosis:
    """Verdict, phases, findings, and what could not be told."""
    ceiling = ceiling_of(log.stages)
    findings: list[Finding] = []
    phases: list[Phase] = []
    skipped: list[Skipped] = []
    estimates: list[str] = []
    for stage in log.stages:
        case = Case(log=stage, settings=log.settings, ceiling=ceiling)
        own = findings_of(case, rules)
        findings += own
        phases += phases_of(stage, own)
        skipped += _skipped(case, rules)
        fit = fit_peak(case, rules[_PEAK]) if stage.stage == "ppo" else None
        estimates += [peak_words(fit)] if fit is not None else []
    findings.sort(key=lambda finding: (-finding.severity, finding.is_over, finding.first_step))
    taken = tuple((column.theirs, column.ours, column.origin) for column in log.columns if column.ours is not None)
    return Diagnosis(
        source=log.source,
        format=log.format,
        num_steps=sum(len(stage.steps) for stage in log.stages),
        severity=max((finding.severity for finding in findings), default=None),
        verdict=_verdict(log, findings),
        phases=tuple(phases),
        findings=tuple(findings),
        estimates=tuple(estimates),
        curves=tuple(curve for stage in log.stages for curve in _curves(stage)),
        taken=taken,
        unused=tuple(column.theirs for column in log.columns if column.ours is None),
        skipped=tuple(skipped),
        to_log=tuple(dict.fromkeys(name for item in skipped for name in item.missing.split(", "))),
        settings=log.settings,
        notes=(*log.notes, *_short(log)),
    )


def examine_run(log: RunLog, given: Rules | None) -> Diagnosis:
    """By the rules `given`, else by those that the run used itself, else by the table.

    Raises ConfigError where the run's own are no longer as the run read them.
    """
    rules, notes = rules_in_force(given, log.rules)
    return examine(replace(log, notes=(*log.notes, *notes)), rules)


def findings_of(case: Case, rules: Rules, only: Sequence[str] = tuple(CHECKS)) -> list[Finding]:
    """The findings of one stage, by the rules named."""
    symptoms = []
    for name in only:
        rule = rules[name].of_one_step() if case.log.has_one_step else rules[name]
        if rule.stage not in ("any", case.log.stage) or case.missing(rule):
            continue
        symptom = CHECKS[name](case, rule)
        if symptom is not None:
            symptoms.append((symptom, rule))
    return findings_from(symptoms, stage=case.log.stage, settings=case.settings)


def ceiling_of(stages: Sequence[StageLog]) -> float | None:
    """The score ceiling that the reward model's stage measured last."""
    known = [stage.get(CEILING) for stage in stages]
    return next((float(series.values[-1]) for series in known if series.size), None)


def _skipped(case: Case, rules: Rules) -> list[Skipped]:
    found = []
    for rule in rules.by_name.values():
        missing = case.missing(rule) if _applies(rule, case) else ()
        if missing:
            names = ", ".join(group[0] for group in missing)
            found.append(Skipped(rule=rule.name, meaning=rule.meaning, missing=names))
    return found


def _applies(rule: Rule, case: Case) -> bool:
    return rule.stage == case.log.stage or (rule.stage == "any" and case.log.stage == "ppo")


def _short(log: RunLog) -> list[str]:
    if all(stage.has_one_step for stage in log.stages):
        return ["one step only: what needs a course (trends, jumps, shifts) could not be checked"]
    return []


def _verdict(log: RunLog, findings: Sequence[Finding]) -> str:
    serious = [finding for finding in findings if finding.severity > Severity.WATCH]
    watched = list(dict.fromkeys(finding.phrase for finding in findings if finding.severity == Severity.WATCH))
    course = _course(log)
    if not serious:
        noted = f" (watch: {', '.join(watched)})" if watched else ""
        return f"healthy{noted}{f': {course}' if course else ''}"
    severity = max(finding.severity for finding in serious)
    worst = [finding for finding in serious if finding.severity == severity]
    first = min(worst, key=lambda finding: finding.first_step)
    over = _over(serious)
    phrases, others = _told(worst), _told(serious)
    if over:
        phrases, others = ([*dict.fromkeys(finding.phrase for finding in some)] for some in (worst, serious))
    others = [phrase for phrase in others if phrase not in phrases]
    words = ", ".join(phrases) + (f"; also {', '.join(others)}" if others else "")
    span = f"{severity.word} from {first.stage} step {first.first_step:g}{over}"
    return f"{span}: {words}{f'. {course}' if course else ''}"


def _over(findings: Sequence[Finding]) -> str:
    """Since when all of them are over; nothing where one is not."""
    ends = [finding.until for finding in findings if finding.until is not None]
    if len(ends) < len(findings):
        return ""
    return f", over since step {max(ends):g}" if len({finding.stage for finding in findings}) == 1 else ", all over"


def _told(findings: Sequence[Finding]) -> list[str]:
    """Each phrase once; "over" only where all that is meant is over."""
    ends: dict[str, list[float | None]] = {}
    for finding in findings:
        ends.setdefault(finding.phrase, []).append(finding.until)
    return [
        phrase if None in steps else f"{phrase} (over at step {max(step for step in steps if step is not None):g})"
        for phrase, steps in ends.items()
    ]


def _course(log: RunLog) -> str:
    """The last stage's score, KL and held-out score in a few words."""
    stage = log.stages[-1]
    parts = []
    for word, metric in HEADLINES[stage.stage][:4]:
        series = stage.get(metric)
        if series.size > 1:
            parts.append(f"{word} {series.values[0]:.3g} to {series.values[-1]:.3g}, {trend(series)}")
        elif series.size:
            parts.append(f"{word} {series.values[0]:.3g}")
    return "; ".join(parts)


def _curves(stage: StageLog) -> list[Curve]:
    curves = []
    for metric in CURVES[stage.stage]:
        series = stage.get(metric)
        if series.size:
            parts = np.array_split(series.values, min(_SHAPE, series.size))
            curves.append(
                Curve(
                    stage=stage.stage,
                    metric=metric,
                    first=float(series.values[0]),
                    last=float(series.values[-1]),
                    low=float(series.values.min()),
                    high=float(series.values.max()),
                    shape=tuple(float(np.median(part)) for part in parts),
                )
            )
    return curves
