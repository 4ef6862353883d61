"""Made logs for the doctor's tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.examine import examine, findings_of
from rlhf_ray.doctor.findings import Diagnosis, Finding, Severity
from rlhf_ray.doctor.names import stage_of
from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.doctor.readers.detect import read_log
from rlhf_ray.doctor.rules import RULES, Rules
from rlhf_ray.doctor.runlog import Series, StageLog, series_of
from rlhf_ray.doctor.translate import run_log

LOGS = Path(__file__).parent / "doctor" / "logs"
Columns = Mapping[str, Sequence[float]]

HEALTHY_STEP = {
    "objective/scores": 1.0,
    "objective/kl": 3.0,
    "policy/clipfrac_avg": 0.05,
    "policy/approxkl_avg": 0.01,
    "policy/entropy_avg": 1.5,
    "loss/policy_avg": -0.01,
    "loss/value_avg": 0.1,
    "val/explained_variance": 0.3,
    "policy/grad_norm": 0.5,
}  # of PPO


@dataclass(frozen=True, kw_only=True)
class Made:
    """One rule's illness, where it begins, and a log that only looks like it."""

    rule: str
    sick: Columns
    onset: float
    severity: Severity
    healthy: Columns
    facts: Mapping[str, object] = field(default_factory=dict)


def diagnosed(path: Path) -> Diagnosis:
    return examine(read_log(path, {}), RULES)


def diagnosed_rows(rows: Sequence[Mapping[str, object]]) -> Diagnosis:
    raw = RawLog(format="rows")
    raw.add_rows(rows)
    return examine(run_log(raw, source="made", given={}), RULES)


def rules_found(diagnosis: Diagnosis) -> set[str]:
    return {finding.rule for finding in diagnosis.findings}


def case(columns: Columns, *, settings: Mapping[str, float] | None = None, ceiling: float | None = None) -> Case:
    """A stage with one value a step from step 1 on, for each column as long as it is."""
    series: dict[str, Series] = {
        name: series_of(range(1, len(values) + 1), list(values)) for name, values in columns.items()
    }
    log = StageLog(stage=stage_of(next(iter(columns))), series=series, nonfinite={})
    return Case(log=log, settings=settings or {}, ceiling=ceiling)


def found(columns: Columns, rule: str, *, rules: Rules = RULES, **facts: object) -> list[Finding]:
    """What one rule finds."""
    return findings_of(case(columns, **facts), rules, [rule])  # type: ignore[arg-type]  # settings and ceiling


def ramp(first: float, last: float, points: int) -> list[float]:
    return [first + (last - first) * i / (points - 1) for i in range(points)]
