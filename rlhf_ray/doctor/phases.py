"""A stage as a sequence of stretches: healthy, watched, ill; long healthy ones are split where they change course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from rlhf_ray.doctor.facts import HEADLINES
from rlhf_ray.doctor.findings import Finding, Phase, Severity
from rlhf_ray.doctor.robust import noise, trend
from rlhf_ray.doctor.runlog import Floats, StageLog

_LONG = 20  # points from which a healthy stretch may be split
_SAMPLED = 100  # points that change points are looked for in
_PENALTY = 4.0  # times ln(points), per metric


def phases_of(log: StageLog, findings: Sequence[Finding]) -> tuple[Phase, ...]:
    """The stretches in order. `findings` are those of this stage."""
    steps = log.steps
    if not len(steps):
        return ()
    marks = _severity_changes(steps, findings)
    found = []
    for begin, end in zip(marks, [*marks[1:], len(steps)], strict=True):
        severity = _severity_at(float(steps[begin]), findings)
        cuts = (
            [begin, *_change_points(log, steps[begin:end], offset=begin), end]
            if not _serious(severity)
            else [begin, end]
        )
        for first, last in pairwise(cuts):
            span = (float(steps[first]), float(steps[last - 1]))
            found.append(
                Phase(
                    stage=log.stage,
                    first=span[0],
                    last=span[1],
                    severity=severity,
                    text=_words(log, findings, span=span, severity=severity),
                )
            )
    return tuple(found)


def _severity_at(step: float, findings: Sequence[Finding]) -> Severity | None:
    active = [
        severity
        for finding in findings
        for severity, onset in finding.onsets.items()
        if onset <= step and (finding.until is None or step < finding.until)
    ]
    return max(active, default=None)


def _serious(severity: Severity | None) -> bool:
    return severity is not None and severity > Severity.WATCH


def _severity_changes(steps: Floats, findings: Sequence[Finding]) -> list[int]:
    """Indices where the worst severity changes; a mere watch begins no stretch."""
    levels = [max(_severity_at(float(step), findings) or 0, Severity.WATCH) for step in _moments(steps, findings)]
    moments = _moments(steps, findings)
    changes = [0] + [i for i in range(1, len(levels)) if levels[i] != levels[i - 1]]
    return sorted({int(np.searchsorted(steps, moments[i])) for i in changes})


def _moments(steps: Floats, findings: Sequence[Finding]) -> list[float]:
    known = {float(steps[0])}
    for finding in findings:
        known |= set(finding.onsets.values()) | ({finding.until} if finding.until is not None else set())
    return sorted(step for step in known if steps[0] <= step <= steps[-1])


def _change_points(log: StageLog, steps: Floats, *, offset: int) -> list[int]:
    """Where the slopes of score, KL, held-out score and entropy change; none in short stretches."""
    if len(steps) < _LONG:
        return []
    stride = max(1, -(-len(steps) // _SAMPLED))
    rows = []
    for _word, metric in HEADLINES[log.stage]:
        values = log.get(metric).at(steps)[::stride]
        scale = noise(values) if np.isfinite(values).all() else 0.0
        rows += [values / scale] if scale > 0 else []
    if not rows:
        return []
    from ruptures import BottomUp  # noqa: PLC0415  takes half a second, and short logs need it not

    signal = np.stack(rows, axis=1)
    smallest = max(5, len(signal) // 6)
    penalty = _PENALTY * np.log(len(signal)) * signal.shape[1]
    ends = BottomUp(model="clinear", min_size=smallest, jump=1).fit(signal).predict(pen=penalty)
    return [offset + int(end) * stride for end in ends[:-1]]


def _words(log: StageLog, findings: Sequence[Finding], *, span: tuple[float, float], severity: Severity | None) -> str:
    course = "; ".join(_courses(log, span))
    phrases = _phrases(findings, span=span, serious=_serious(severity))
    if _serious(severity):
        return f"{', '.join(phrases)}{f' ({course})' if course else ''}"
    watched = f" (watch: {', '.join(phrases)})" if phrases else ""
    return f"healthy{watched}{f': {course}' if course else ''}"


def _phrases(findings: Sequence[Finding], *, span: tuple[float, float], serious: bool) -> list[str]:
    active: list[str] = []
    for finding in findings:
        onset = min(
            (step for severity, step in finding.onsets.items() if (severity > Severity.WATCH) == serious),
            default=None,
        )
        if onset is None or onset > span[1] or (finding.until is not None and finding.until <= span[0]):
            continue
        phrase = finding.phrase if serious or finding.severity == Severity.WATCH else _watched(log_kind=finding.kind)
        active += [phrase] if phrase not in active else []
    return active


def _watched(*, log_kind: str) -> str:
    return "KL rising" if log_kind == "runaway_kl" else log_kind.replace("_", " ")


def _courses(log: StageLog, span: tuple[float, float]) -> Iterator[str]:
    for word, metric in HEADLINES[log.stage]:
        part = log.get(metric).between(*span)
        if part.size >= 2:
            few = max(1, min(5, part.size // 3))
            first, last = np.median(part.values[:few]), np.median(part.values[-few:])
            yield f"{word} {first:.3g} to {last:.3g}, {trend(part)}"
