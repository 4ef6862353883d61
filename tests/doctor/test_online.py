"""The same checks while a run goes on."""

import json
import math
import time

from doctor_cases import HEALTHY_STEP, LOGS

from rlhf_ray.doctor.findings import Severity
from rlhf_ray.doctor.online import Doctor
from rlhf_ray.doctor.rules import RULES

HEALTHY = HEALTHY_STEP | {"time/iteration": 1.0}


def told(name: str) -> dict[str, int]:
    """Rule: the step at which it was first told."""
    doctor, first = Doctor(RULES, {}), {}
    for line in (LOGS / name).read_text().splitlines():
        row = json.loads(line)
        for finding in doctor.observe("ppo", row.pop("step"), row):
            first.setdefault(finding.rule, row["episode"] // 32)
    return first


def test_an_unstable_run_is_noticed_within_five_iterations() -> None:
    first = told("unstable.jsonl")
    assert first["policy_instability.approx_kl"] == 3
    assert first["runaway_kl.level"] == 5


def test_the_first_iteration_alarms_nobody() -> None:
    assert min(told("learning.jsonl").values()) >= 3


def test_a_finding_is_told_once_and_again_when_it_gets_worse() -> None:
    doctor = Doctor(RULES, {})
    severities = [
        finding.severity
        for step in range(1, 40)
        for finding in doctor.observe("ppo", step, {"objective/kl": float(2 * step)})
        if finding.rule == "runaway_kl.level"
    ]
    assert severities == [Severity.WATCH, Severity.WARNING, Severity.CRITICAL]


def test_nan_is_told_at_once() -> None:
    doctor = Doctor(RULES, {})
    doctor.observe("ppo", 1, HEALTHY)
    (finding,) = doctor.observe("ppo", 2, HEALTHY | {"loss/policy_avg": math.nan})
    assert (finding.kind, finding.first_step) == ("nonfinite", 2)


def test_undefined_values_and_unknown_names_are_passed_over() -> None:
    doctor = Doctor(RULES, {})
    assert doctor.observe("ppo", 1, {"val/explained_variance": None, "something/else": 5.0}) == []


def test_the_reward_models_ceiling_is_carried_into_ppo() -> None:
    doctor = Doctor(RULES, {})
    doctor.observe("reward_model", 84, {"reward_model/score_ceiling": 1.6, "reward_model/val_accuracy": 0.9})
    found = [doctor.observe("ppo", step, {"objective/scores": 2.0}) for step in range(1, 5)]
    assert "reward_hacking.above_ceiling" in {finding.rule for findings in found for finding in findings}


def test_a_reward_model_at_chance_is_told_before_ppo() -> None:
    doctor = Doctor(RULES, {})
    for step in (0, 10, 20):
        found = doctor.observe("reward_model", step, {"reward_model/val_accuracy": 0.51})
    assert [finding.kind for finding in found] == ["reward_model_near_chance"]


def test_advice_starts_from_the_settings_in_force() -> None:
    doctor = Doctor(RULES, {"algorithm.kl_coef": 0.05})
    rows = [{"objective/kl": 30.0, "objective/kl_coef": 0.2}] * 6
    found = [finding for step, row in enumerate(rows, start=1) for finding in doctor.observe("ppo", step, row)]
    beta = next(c for c in found[-1].changes if c.setting == "algorithm.kl_coef")
    assert (beta.now, beta.to) == (0.2, 0.4)


def test_after_a_rollback_the_same_illness_is_told_again() -> None:
    doctor = Doctor(RULES, {})

    def rise() -> list[int]:
        steps = range(6, 12)
        return [
            s for s in steps if any(f.kind == "runaway_kl" for f in doctor.observe("ppo", s, {"objective/kl": 30.0}))
        ]

    for step in range(1, 6):
        doctor.observe("ppo", step, {"objective/kl": 1.0})
    first = rise()
    doctor.forget_after("ppo", 5)
    assert rise() == first != []


def test_a_long_run_keeps_its_start_and_costs_milliseconds() -> None:
    doctor = Doctor(RULES, {})
    for step in range(1, 600):
        doctor.observe("ppo", step, HEALTHY | {"policy/entropy_avg": 1.5 - 0.001 * min(step, 500)})
    begin = time.process_time()
    for step in range(600, 620):
        found = doctor.observe("ppo", step, HEALTHY | {"policy/entropy_avg": 0.7})
    assert (time.process_time() - begin) / 20 < 0.03
    assert doctor.observe("ppo", 620, HEALTHY | {"policy/entropy_avg": 0.7}) == []
    assert found == []  # told before: 0.7 is below half of the 1.5 of the start
    assert Doctor(RULES, {}).observe("ppo", 620, HEALTHY | {"policy/entropy_avg": 0.7}) == []


def test_a_fall_from_the_start_is_seen_long_after_it() -> None:
    doctor = Doctor(RULES, {})
    found = [
        finding.rule
        for step in range(1, 500)
        for finding in doctor.observe("ppo", step, {"policy/entropy_avg": 1.5 if step < 450 else 0.6})
    ]
    assert found == ["mode_collapse.entropy"]
