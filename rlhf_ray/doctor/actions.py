"""What is done about a finding: a policy per kind, a pure decision, a record from which it can be replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlhf_ray.doctor.findings import Finding, Severity, finding_record
from rlhf_ray.doctor.report import finite_only
from rlhf_ray.doctor.rules import RULES
from rlhf_ray.errors import ConfigError
from rlhf_ray.files.jsonl import JsonlWriter

FINDINGS_FILE = "findings.jsonl"
PPO = "ppo"


class Policy(StrEnum):
    """What a kind of finding leads to."""

    WARN = "warn"  # it is told and recorded
    STOP = "stop"  # the run ends, with a checkpoint
    ADAPT = "adapt"  # beta is raised, the learning rate lowered, within limits
    ROLLBACK = "rollback"  # back to the last checkpoint before the onset, with the settings adapted
    EARLY_STOP = "early_stop"  # the run ends as finished: going on is not worth it


KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES.by_name.values()))
DEFAULT_POLICIES: Mapping[str, Policy] = {kind: Policy.STOP if kind == "nonfinite" else Policy.WARN for kind in KINDS}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far the doctor may go."""

    kl_coef_factor: float
    kl_coef_start: float  # where beta is 0
    kl_coef_max: float
    learning_rate_factor: float
    learning_rate_min: float  # share of the run's own
    cooldown: int  # iterations in which an action may show its effect before the next
    max_rollbacks: int


DEFAULT_LIMITS = Limits(
    kl_coef_factor=1.5,
    kl_coef_start=0.05,
    kl_coef_max=1.0,
    learning_rate_factor=0.5,
    learning_rate_min=0.1,
    cooldown=3,
    max_rollbacks=2,
)


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What is in force, and what was done so far."""

    kl_coef: float
    learning_rate_share: float  # of the schedule
    checkpoints: tuple[int, ...]  # steps that can be gone back to, ascending
    num_rollbacks: int
    last_action: int | None  # step


@dataclass(frozen=True, kw_only=True)
class Action:
    """One decision."""

    step: int
    stage: str
    kind: str
    form: str
    policy: Policy  # that took effect: a policy that cannot act becomes `warn`
    kl_coef: float  # in force from now on
    learning_rate_share: float
    rollback_to: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """Which policy is for which kind. Raises ConfigError for a kind that is unknown, with the known ones."""

    policies: Mapping[str, Policy]  # a kind that is not here is warned of
    limits: Limits

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.policies if kind not in KINDS]
        if unknown:
            raise ConfigError(f"doctor policy for {unknown[0]}: no such kind; known are {', '.join(KINDS)}")


# which of the two levers a kind calls for: what has neither can be adapted to by nothing
RAISES_BETA = ("runaway_kl", "reward_hacking", "over_optimisation", "mode_collapse", "lost_eos", "plateau")
LOWERS_RATE = ("runaway_kl", "policy_instability", "value_failure", "mode_collapse", "gradient_explosion", "nonfinite")
_ONLY_WATCHED = ("plateau",)  # is never more than to be watched, and is acted on all the same


def decide(finding: Finding, treatment: Treatment, rulebook: Rulebook, *, step: int) -> Action:
    """The action for one finding. Pure: the same arguments give the same action."""
    policy = rulebook.policies.get(finding.kind, Policy.WARN)
    match policy:
        case Policy.STOP if not _is_mild(finding):
            return _action(finding, treatment, step=step, policy=policy, reason=finding.summary)
        case Policy.EARLY_STOP if not _is_mild(finding) and finding.stage == PPO:
            return _action(finding, treatment, step=step, policy=policy, reason=finding.summary)
        case Policy.ADAPT:
            return _adapted(finding, treatment, rulebook.limits, step=step)
        case Policy.ROLLBACK:
            return _rolled_back(finding, treatment, rulebook.limits, step=step)
        case _:
            return _action(finding, treatment, step=step, policy=Policy.WARN, reason=finding.summary)


def apply(action: Action, treatment: Treatment) -> Treatment:
    """What is in force after an action."""
    acted = action.policy in (Policy.ADAPT, Policy.ROLLBACK)
    rolled = action.rollback_to is not None
    kept = (
        treatment.checkpoints
        if not rolled
        else tuple(s for s in treatment.checkpoints if s <= (action.rollback_to or 0))
    )
    return Treatment(
        kl_coef=action.kl_coef,
        learning_rate_share=action.learning_rate_share,
        checkpoints=kept,
        num_rollbacks=treatment.num_rollbacks + rolled,
        last_action=(action.rollback_to if rolled else action.step) if acted else treatment.last_action,
    )


def treat(
    findings: Sequence[Finding], treatment: Treatment, rulebook: Rulebook, *, step: int
) -> tuple[list[Action], Treatment]:
    """Decisions on all findings of a step, the worst first; after one that ends or goes back, the rest are warnings."""
    actions: list[Action] = []
    final = False
    for finding in sorted(findings, key=lambda item: -item.severity):
        book = replace(rulebook, policies={}) if final else rulebook
        action = decide(finding, treatment, book, step=step)
        treatment = apply(action, treatment)
        final = final or action.policy in (Policy.STOP, Policy.EARLY_STOP, Policy.ROLLBACK)
        actions.append(action)
    return actions, treatment


def standing(records: Sequence[Mapping[str, Any]], *, step: int) -> list[Mapping[str, Any]]:
    """The recorded actions that a PPO stage which goes on from `step` has behind it.

    The last ones from after `step` were undone with their iterations; a rollback is what led back, and stays.
    """
    actions = [record for record in records if record.get("record") == "action" and record["stage"] == PPO]
    while actions and actions[-1]["step"] > step and actions[-1]["rollback_to"] is None:
        actions.pop()
    return actions


def replay(records: Sequence[Mapping[str, Any]], treatment: Treatment) -> Treatment:
    """What is in force after the recorded actions; other records are passed over."""
    for record in records:
        if record.get("record") == "action":
            treatment = apply(action_of(record), treatment)
    return treatment


def action_record(action: Action) -> dict[str, Any]:
    """A line of findings.jsonl."""
    return {"record": "action", **vars(action), "policy": action.policy.value}


def action_of(record: Mapping[str, Any]) -> Action:
    """The action of such a line."""
    fields = {name: value for name, value in record.items() if name != "record"}
    return Action(**{**fields, "policy": Policy(fields["policy"])})


class FindingsWriter:
    """Appends to findings.jsonl: {"record": "finding", "step": ..., ...} and {"record": "action", ...}."""

    def __init__(self, run_dir: Path) -> None:
        self._writer = JsonlWriter(run_dir / FINDINGS_FILE)

    def finding(self, step: int, finding: Finding) -> None:
        """A finding, at the step it was told."""
        self._writer.append(finite_only({"record": "finding", "step": step, **finding_record(finding)}))

    def action(self, action: Action) -> None:
        """What was decided."""
        self._writer.append(action_record(action))

    def close(self) -> None:
        """Give the file back."""
        self._writer.close()


_AT_LIMITS = "beta and learning rate are at their limits, or neither is the cause"


def _action(  # noqa: PLR0913  the fields of the record
    finding: Finding,
    treatment: Treatment,
    *,
    step: int,
    policy: Policy,
    reason: str,
    kl_coef: float | None = None,
    share: float | None = None,
    rollback_to: int | None = None,
) -> Action:
    return Action(
        step=step,
        stage=finding.stage,
        kind=finding.kind,
        form=finding.form,
        policy=policy,
        kl_coef=treatment.kl_coef if kl_coef is None else kl_coef,
        learning_rate_share=treatment.learning_rate_share if share is None else share,
        rollback_to=rollback_to,
        reason=reason,
    )


def _adapted(finding: Finding, treatment: Treatment, limits: Limits, *, step: int) -> Action:
    refusal = _refusal(finding, treatment, limits, step=step)
    kl_coef, share = _levers(finding, treatment, limits)
    if not refusal and (kl_coef, share) == (treatment.kl_coef, treatment.learning_rate_share):
        refusal = _AT_LIMITS
    if refusal:
        return _action(
            finding, treatment, step=step, policy=Policy.WARN, reason=f"{finding.summary}; not adapted: {refusal}"
        )
    return _action(
        finding,
        treatment,
        step=step,
        policy=Policy.ADAPT,
        kl_coef=kl_coef,
        share=share,
        reason=f"{finding.summary}: {_words(treatment, kl_coef, share)}",
    )


def _rolled_back(finding: Finding, treatment: Treatment, limits: Limits, *, step: int) -> Action:
    earlier = [known for known in treatment.checkpoints if known < finding.first_step]
    refusal = _refusal(finding, treatment, limits, step=step)
    if not refusal and treatment.num_rollbacks >= limits.max_rollbacks:
        refusal = f"there were {treatment.num_rollbacks} rollbacks already"
    if not refusal and not earlier:
        refusal = f"no checkpoint is from before step {finding.first_step:g}"
    kl_coef, share = _levers(finding, treatment, limits)
    if not refusal and (kl_coef, share) == (treatment.kl_coef, treatment.learning_rate_share):
        refusal = f"{_AT_LIMITS}, so the same would come again"
    if refusal:
        reason = f"{finding.summary}; not rolled back: {refusal}"
        return _action(finding, treatment, step=step, policy=Policy.WARN, reason=reason)
    return _action(
        finding,
        treatment,
        step=step,
        policy=Policy.ROLLBACK,
        kl_coef=kl_coef,
        share=share,
        rollback_to=earlier[-1],
        reason=f"{finding.summary}: back to step {earlier[-1]}, {_words(treatment, kl_coef, share)}",
    )


def _refusal(finding: Finding, treatment: Treatment, limits: Limits, *, step: int) -> str:
    if finding.stage != PPO:
        return "only PPO has beta, and checkpoints to go on from with other rates"
    if _is_mild(finding):
        return "it is only to be watched"
    if treatment.last_action is not None and step - treatment.last_action < limits.cooldown:
        return f"the action of step {treatment.last_action} may still show its effect"
    return ""


def _is_mild(finding: Finding) -> bool:
    return finding.severity == Severity.WATCH and finding.kind not in _ONLY_WATCHED


def _levers(finding: Finding, treatment: Treatment, limits: Limits) -> tuple[float, float]:
    kl_coef, share = treatment.kl_coef, treatment.learning_rate_share
    if finding.kind in RAISES_BETA:
        raised = limits.kl_coef_start if kl_coef == 0 else kl_coef * limits.kl_coef_factor
        kl_coef = max(kl_coef, min(raised, limits.kl_coef_max))
    if finding.kind in LOWERS_RATE:
        share = min(share, max(share * limits.learning_rate_factor, limits.learning_rate_min))
    return kl_coef, share


def _words(treatment: Treatment, kl_coef: float, share: float) -> str:
    parts = []
    if kl_coef != treatment.kl_coef:
        parts.append(f"algorithm.kl_coef {treatment.kl_coef:g} -> {kl_coef:g}")
    if share != treatment.learning_rate_share:
        parts.append(f"learning rates x {share / treatment.learning_rate_share:g}")
    return ", ".join(parts)
