"""The doctor while a run goes on: told, recorded, and acted on as `conf/doctor` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlhf_ray.config.doctor import DoctorConfig
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import walk
from rlhf_ray.doctor.actions import (
    FINDINGS_FILE,
    PPO,
    Action,
    FindingsWriter,
    Limits,
    Policy,
    Rulebook,
    Treatment,
    decide,
    replay,
    standing,
    treat,
)
from rlhf_ray.doctor.findings import Finding, Severity
from rlhf_ray.doctor.online import Doctor
from rlhf_ray.doctor.rules import RULES, load_rules
from rlhf_ray.errors import StoppedError
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.loops.ppo import PpoState, Verdict
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.tracking.values import reduce_stats
from rlhf_ray.types import Stats

UNTREATED = Treatment(kl_coef=0.0, learning_rate_share=1.0, checkpoints=(), num_rollbacks=0, last_action=None)
LEVELS = {Severity.WATCH: "info", Severity.WARNING: "warning", Severity.CRITICAL: "error"}
Row = Mapping[str, Any]


class Monitor:
    """One run's doctor. Knows of rows already written, so that a resumed run is judged as a straight one."""

    def __init__(self, config: TrainConfig, run_dir: Path, *, rows: Sequence[Row], tell: Callable[[str], None]) -> None:
        doctor = config.doctor
        rules = RULES if doctor.rules is None else load_rules(Path(doctor.rules))
        self._enabled = doctor.enabled
        self._stop_above_kl = config.algorithm.stop_above_kl
        self._doctor = Doctor(rules, numbers(config))
        self._rulebook = rulebook(doctor)
        self._file = run_dir / FINDINGS_FILE
        self._treatment = replay(self._told(), UNTREATED)
        self._writer = FindingsWriter(run_dir)
        self._tell = tell
        self.ended: str | None = None  # why the doctor ended PPO
        for row in rows:
            self._doctor.observe(row["stage"], int(row["step"]), measured(row))

    def observe(self, stage: str, step: int, stats: Stats, *, tracker: Tracker) -> list[Finding]:
        """Tell and record what is new."""
        if not self._enabled:
            return []
        found = self._doctor.observe(stage, step, reduce_stats(stats))
        for finding in found:
            self._writer.finding(step, finding)
            self._tell(f"{finding.severity.word}: {stage} {step}: {finding.summary}")
            tracker.alert(finding.kind, finding.summary, level=LEVELS[finding.severity])
        return found

    def watch(self, stage: str, step: int, stats: Stats, *, tracker: Tracker) -> None:
        """A stage before PPO: tell, record, and end the run where that is a kind's policy. Raises StoppedError."""
        for finding in self.observe(stage, step, stats, tracker=tracker):
            action = decide(finding, self._treatment, self._rulebook, step=step)
            self._writer.action(action)
            if action.policy is Policy.STOP:
                raise StoppedError(f"{stage} step {step}: {finding.summary} (doctor.stop names {finding.kind})")

    def examine(self, state: PpoState, stats: Stats, *, checkpoints: Sequence[int], tracker: Tracker) -> Verdict:
        """How PPO goes on after this iteration; `checkpoints` are the steps that can be gone back to."""
        found = self.observe(PPO, state.step, stats, tracker=tracker)
        now = replace(
            self._treatment,
            kl_coef=state.kl_coef,
            learning_rate_share=state.learning_rate_share,
            checkpoints=tuple(checkpoints),
        )
        actions, self._treatment = treat(found, now, self._rulebook, step=state.step)
        for action in actions:
            self._writer.action(action)
            if action.policy is not Policy.WARN:
                self._tell(f"{action.policy.value}: {action.reason}")
        ends = [ending(action) for action in actions if action.policy in (Policy.STOP, Policy.EARLY_STOP)]
        self.ended = ends[0] if ends else None
        back = [action.rollback_to for action in actions if action.rollback_to is not None]
        return Verdict(
            kl_coef=self._treatment.kl_coef,
            learning_rate_share=self._treatment.learning_rate_share,
            rollback_to=back[0] if back else None,
            stop=ends[0] if ends else above_limit(stats, step=state.step, limit=self._stop_above_kl),
        )

    def forget_after(self, stage: str, step: int) -> None:
        """The stage went back to this step: what came after it was not seen, and what was done about it is undone."""
        self._doctor.forget_after(stage, step)
        if stage == PPO:
            self._treatment = replay(standing(self._told(), step=step), UNTREATED)

    def close(self) -> None:
        """Give findings.jsonl back."""
        self._writer.close()

    def _told(self) -> list[dict[str, Any]]:
        return read_jsonl(self._file) if self._file.exists() else []


def ending(action: Action) -> str:
    """Why the doctor ended PPO, and how one goes on all the same."""
    cause = f"by the doctor at iteration {action.step}: {action.reason}"
    if action.policy is Policy.EARLY_STOP:
        return f"ended early {cause} (doctor.early_stop names {action.kind})"
    return (
        f"stopped {cause} (doctor.stop names {action.kind}); checkpoint and policy are kept; to go on all the same, "
        f"start a new run without {action.kind} in doctor.stop (reuse=on takes over the stages before PPO)"
    )


def above_limit(stats: Stats, *, step: int, limit: float | None) -> str | None:
    """Ends a run whose sequence KL to the reference has left the range in which the reward model is to be believed."""
    kl = stats["objective/kl"].value
    if limit is None or kl is None or kl <= limit:
        return None
    return f"objective/kl={kl:.2f} nats at iteration {step} is above algorithm.stop_above_kl={limit:g}"


def rulebook(config: DoctorConfig) -> Rulebook:
    """Policies and limits."""
    policies = {
        kind: policy
        for policy, kinds in (
            (Policy.ADAPT, config.adapt),
            (Policy.ROLLBACK, config.rollback),
            (Policy.EARLY_STOP, config.early_stop),
            (Policy.STOP, config.stop),
        )
        for kind in kinds
    }
    return Rulebook(
        policies=policies,
        limits=Limits(
            kl_coef_factor=config.kl_coef_factor,
            kl_coef_start=config.kl_coef_start,
            kl_coef_max=config.kl_coef_max,
            learning_rate_factor=config.learning_rate_factor,
            learning_rate_min=config.learning_rate_min,
            cooldown=config.cooldown,
            max_rollbacks=config.max_rollbacks,
        ),
    )


def numbers(config: TrainConfig) -> dict[str, float]:
    """The run's settings that are numbers, by key: advice starts from them."""
    return {
        item.key: float(item.value)
        for item in walk(config)
        if isinstance(item.value, int | float) and not isinstance(item.value, bool)
    }


def measured(row: Row) -> dict[str, float]:
    """The metrics of a line of metrics.jsonl, NaN and infinities among them (files/jsonl.py)."""
    values = {name: float(value) for name, value in row.items() if isinstance(value, int | float) and "/" in name}
    flag = "/nonfinite"
    return {**values, **{name.removesuffix(flag): float(row[name]) for name in row if name.endswith(flag)}}
