"""What the doctor says. Plain records: text, JSON and every other page are made from these alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How much a finding matters."""

    WATCH = 0  # healthy so far
    WARNING = 1  # likely to hurt
    CRITICAL = 2  # the run is being lost

    @property
    def word(self) -> str:
        """As it is written."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One metric before and after the onset."""

    metric: str
    before: float | None  # None: the log begins with the onset
    after: float
    last: float
    limit: float | None  # what was crossed; None where the rule is not one number


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """What a check found."""

    onsets: Mapping[Severity, float]  # the first step at each severity that is reached
    until: float | None  # first step at which it was over; None: it is not
    summary: str
    evidence: tuple[Evidence, ...]

    @property
    def severity(self) -> Severity:
        """The worst that is reached."""
        return max(self.onsets)

    @property
    def first_step(self) -> float:
        """Where it became more than something to watch; for a mere watch, where that began."""
        serious = [step for severity, step in self.onsets.items() if severity > Severity.WATCH]
        return min(serious or self.onsets.values())


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing to do about a finding."""

    setting: str | None  # key of rlhf_ray/config; None: not a setting
    now: float | None  # None: the log does not tell
    to: float | None
    text: str
    risk: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A symptom with what it means and what to do."""

    kind: str
    form: str
    stage: str
    severity: Severity
    first_step: float
    until: float | None
    onsets: Mapping[Severity, float]
    phrase: str  # a few words for the timeline
    summary: str
    evidence: tuple[Evidence, ...]
    causes: tuple[str, ...]
    changes: tuple[Change, ...]
    watch_next: tuple[str, ...]
    rule: str  # name in the rules table

    @property
    def is_over(self) -> bool:
        """Whether the run recovered by itself."""
        return self.until is not None


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a stage."""

    stage: str
    first: float
    last: float
    severity: Severity | None  # None: nothing to say against it
    text: str


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A check that could not be made."""

    rule: str
    meaning: str
    missing: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric in few numbers."""

    stage: str
    metric: str
    first: float
    last: float
    low: float
    high: float
    shape: tuple[float, ...]  # up to 40 medians of equal stretches


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that the doctor has to say about one run."""

    source: str
    format: str
    num_steps: int
    severity: Severity | None
    verdict: str
    phases: tuple[Phase, ...]
    findings: tuple[Finding, ...]  # the worst first
    estimates: tuple[str, ...]  # fits that are worth knowing, alarming or not
    curves: tuple[Curve, ...]
    taken: tuple[tuple[str, str, str], ...]  # theirs, ours, origin
    unused: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    to_log: tuple[str, ...]  # metrics that would allow the skipped checks
    settings: Mapping[str, float]
    notes: tuple[str, ...]


def finding_record(finding: Finding) -> dict[str, Any]:
    """JSON's own types."""
    return {
        "kind": finding.kind,
        "form": finding.form,
        "stage": finding.stage,
        "severity": finding.severity.word,
        "first_step": finding.first_step,
        "until": finding.until,
        "onsets": {severity.word: step for severity, step in finding.onsets.items()},
        "phrase": finding.phrase,
        "summary": finding.summary,
        "evidence": [vars(item) for item in finding.evidence],
        "causes": list(finding.causes),
        "changes": [vars(change) for change in finding.changes],
        "watch_next": list(finding.watch_next),
        "rule": finding.rule,
    }


def finding_of_record(record: Mapping[str, Any]) -> Finding:
    """The finding of such a record. Raises KeyError or TypeError where it is not whole."""
    return Finding(
        kind=record["kind"],
        form=record["form"],
        stage=record["stage"],
        severity=Severity[record["severity"].upper()],
        first_step=record["first_step"],
        until=record["until"],
        onsets={Severity[word.upper()]: step for word, step in record["onsets"].items()},
        phrase=record["phrase"],
        summary=record["summary"],
        evidence=tuple(Evidence(**item) for item in record["evidence"]),
        causes=tuple(record["causes"]),
        changes=tuple(Change(**item) for item in record["changes"]),
        watch_next=tuple(record["watch_next"]),
        rule=record["rule"],
    )
