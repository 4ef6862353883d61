"""The same checks while a run goes on: after every iteration, on a window that keeps the run's start."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlhf_ray.doctor.checks.case import CEILING, Case
from rlhf_ray.doctor.checks.registry import CHECKS
from rlhf_ray.doctor.derive import settings_from
from rlhf_ray.doctor.examine import findings_of
from rlhf_ray.doctor.findings import Finding, Severity
from rlhf_ray.doctor.names import is_ours
from rlhf_ray.doctor.rules import Rules
from rlhf_ray.doctor.runlog import Series, StageLog, series_of

_START = 20  # points that are kept as the run's own start
_RECENT = 80  # points that are kept besides
_FIRST = 3  # records before which only what is not finite is told


@dataclass(kw_only=True)
class _Metric:
    """Finite points of the window, and the steps of the others."""

    steps: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    nonfinite: list[float] = field(default_factory=list)

    def add(self, step: float, value: float) -> None:
        if not math.isfinite(value):
            self.nonfinite.append(step)
            return
        self.steps.append(step)
        self.values.append(value)
        if len(self.steps) > _START + 2 * _RECENT:
            del self.steps[_START:-_RECENT], self.values[_START:-_RECENT]

    def __len__(self) -> int:
        return len(self.steps) + len(self.nonfinite)

    def series(self) -> Series:
        """A copy: more is added while others hold this."""
        return Series(steps=np.array(self.steps), values=np.array(self.values))

    def forget_after(self, step: float) -> None:
        kept = sum(1 for known in self.steps if known <= step)
        del self.steps[kept:], self.values[kept:]
        self.nonfinite = [known for known in self.nonfinite if known <= step]


class Doctor:
    """Keeps what it was told of a run. `settings`: the numbers of the run's own configuration, by key."""

    def __init__(self, rules: Rules, settings: Mapping[str, float]) -> None:
        self._rules = rules
        self._settings = dict(settings)
        self._stages: dict[str, dict[str, _Metric]] = {}
        self._told: dict[tuple[str, str], Severity] = {}

    @np.errstate(over="ignore", invalid="ignore")  # a run may log any number
    def observe(self, stage: str, step: int, values: Mapping[str, float | None]) -> list[Finding]:
        """Add the metrics of one step; the findings that are new, or worse than when they were told."""
        metrics = self._stages.setdefault(stage, {})
        for name, value in values.items():
            if value is not None and is_ours(name):
                metrics.setdefault(name, _Metric()).add(float(step), float(value))
        touched = [name for name in CHECKS if self._is_touched(name, values)]
        case = self._case(stage)
        if max(map(len, metrics.values()), default=0) < _FIRST:
            touched = [name for name in touched if self._rules[name].kind == "nonfinite"]
        found = findings_of(case, self._rules, touched)
        return [finding for finding in found if self._is_new(finding)]

    def forget_after(self, stage: str, step: int) -> None:
        """What a rollback undid: later points go, and what was told about them may be told again."""
        for metric in self._stages.get(stage, {}).values():
            metric.forget_after(float(step))
        case = self._case(stage)
        still = {(item.stage, item.rule): item.severity for item in findings_of(case, self._rules)}
        self._told = {
            key: still.get(key, severity) for key, severity in self._told.items() if key[0] != stage or key in still
        }

    def _case(self, stage: str) -> Case:
        metrics = self._stages.get(stage, {})
        log = StageLog(
            stage=stage,
            series={name: metric.series() for name, metric in metrics.items() if metric.steps},
            nonfinite={
                name: series_of(metric.nonfinite, metric.nonfinite).steps
                for name, metric in metrics.items()
                if metric.nonfinite
            },
        )
        return Case(log=log, settings=settings_from([log], self._settings), ceiling=self._ceiling())

    def _ceiling(self) -> float | None:
        measured = [metrics[CEILING].values for metrics in self._stages.values() if CEILING in metrics]
        known = [values[-1] for values in measured if values]  # a resume may have taken all of them back
        return known[-1] if known else None

    def _is_touched(self, rule: str, values: Mapping[str, float | None]) -> bool:
        """Whether any metric that the rule reads is new."""
        names = [name for group in self._rules[rule].needs for name in group]
        return any(name in values if "*" not in name else _in_family(name, values) for name in names)

    def _is_new(self, finding: Finding) -> bool:
        key = (finding.stage, finding.rule)
        before = self._told.get(key)
        if finding.is_over or (before is not None and before >= finding.severity):
            return False
        self._told[key] = finding.severity
        return True


def _in_family(pattern: str, values: Mapping[str, float | None]) -> bool:
    return any(name.startswith(pattern[:-1]) for name in values)
