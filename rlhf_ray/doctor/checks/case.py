"""What a check is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlhf_ray.doctor.findings import Symptom
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Series, StageLog


@dataclass(frozen=True, kw_only=True)
class Case:
    """One stage of one run."""

    log: StageLog
    settings: Mapping[str, float]
    ceiling: float | None  # score that the reward model gives its best held-out answers

    def get(self, *names: str) -> Series:
        """The first of these metrics that has a value."""
        return self.log.get(*names)

    def has(self, name: str) -> bool:
        """Whether there is something to read: a metric, a family written `eval/parts/*`, or the ceiling."""
        if name == CEILING and self.ceiling is not None:
            return True
        if name.endswith("*"):
            return any(own.startswith(name[:-1]) for own in self.log.series)
        return bool(self.log.get(name).size)

    def missing(self, rule: Rule) -> tuple[tuple[str, ...], ...]:
        """The groups of metrics that a rule needs and the log has not."""
        if rule.kind == "nonfinite" and self.log.nonfinite:
            return ()
        return tuple(group for group in rule.needs if not any(self.has(name) for name in group))


CEILING = "reward_model/score_ceiling"
Check = Callable[[Case, Rule], Symptom | None]
