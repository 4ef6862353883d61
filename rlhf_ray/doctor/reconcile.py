"""From the symptoms of a stage to findings whose advice does not contradict itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlhf_ray.doctor.advice import advice_for, change_of
from rlhf_ray.doctor.advice_changes import CHANGES, STAGE_CHANGES
from rlhf_ray.doctor.findings import Change, Finding, Symptom
from rlhf_ray.doctor.names import stage_of
from rlhf_ray.doctor.rules import Rule


@dataclass(frozen=True, kw_only=True)
class _Lead:
    """The weightiest change of a setting."""

    direction: int
    phrase: str  # of its finding
    change: Change


def findings_from(
    symptoms: Sequence[tuple[Symptom, Rule]], *, stage: str, settings: Mapping[str, float]
) -> list[Finding]:
    """Each symptom with its causes, changes in the run's own numbers, and what to watch.

    Of all that change one setting, the weightiest decides: what is still there before what is over, then the worse,
    then the earlier. The others give its number too, or, where they want the opposite, wait until it is settled.
    """
    proposed = [_proposals(symptom, rule, stage=stage, settings=settings) for symptom, rule in symptoms]
    leads: dict[str, _Lead] = {}
    for (_symptom, rule), own in sorted(zip(symptoms, proposed, strict=True), key=lambda item: _weight(item[0][0])):
        for name, change in own.items():
            if change.setting is not None:
                lead = _Lead(direction=_direction(name), phrase=advice_for(rule.name).phrase, change=change)
                leads.setdefault(change.setting, lead)
    return [
        _finding(symptom, rule, stage=stage, changes=[_settled(name, change, leads) for name, change in own.items()])
        for (symptom, rule), own in zip(symptoms, proposed, strict=True)
    ]


def _proposals(symptom: Symptom, rule: Rule, *, stage: str, settings: Mapping[str, float]) -> dict[str, Change]:
    """What the rule's own row says in this stage: name in CHANGES -> change."""
    own = STAGE_CHANGES.get(stage, {})
    names = [own.get(name, name) for name in advice_for(rule.name).changes]
    changes = {name: change_of(name, settings, severity=symptom.severity) for name in names}
    return {name: change for name, change in changes.items() if change is not None}


def _weight(symptom: Symptom) -> tuple[bool, int, float]:
    return symptom.until is not None, -symptom.severity, symptom.first_step


def _direction(name: str) -> int:
    """1 raises, -1 lowers, 0 sets to one value whatever it was."""
    factor = CHANGES[name][2]
    return 0 if factor is None else 1 if factor > 1 else -1


def _settled(name: str, change: Change, leads: Mapping[str, _Lead]) -> Change:
    if change.setting is None:
        return change
    lead = leads[change.setting]
    if lead.direction == _direction(name):
        return lead.change
    return replace(
        change, to=None, text=f'not before "{lead.phrase}" is settled, which asks for the opposite: {change.text}'
    )


def _finding(symptom: Symptom, rule: Rule, *, stage: str, changes: Sequence[Change]) -> Finding:
    advice = advice_for(rule.name)
    own = tuple(metric for metric in advice.watch if rule.stage != "any" or stage_of(metric) == stage)
    return Finding(
        kind=rule.kind,
        form=rule.name.partition(".")[2],
        stage=stage,
        severity=symptom.severity,
        first_step=symptom.first_step,
        until=symptom.until,
        onsets=symptom.onsets,
        phrase=advice.phrase,
        summary=symptom.summary,
        evidence=symptom.evidence,
        causes=advice.causes,
        changes=tuple(changes),
        watch_next=own or tuple(item.metric for item in symptom.evidence),
        rule=rule.name,
    )
