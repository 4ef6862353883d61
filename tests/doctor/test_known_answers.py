"""Logs whose verdict is known, end to end."""

import pytest
from doctor_cases import LOGS, diagnosed, rules_found

from rlhf_ray.doctor.findings import Diagnosis, Finding, Severity


def finding(diagnosis: Diagnosis, rule: str) -> Finding:
    return next(item for item in diagnosis.findings if item.rule == rule)


def settings_named(diagnosis: Diagnosis, kind: str) -> set[str | None]:
    return {change.setting for item in diagnosis.findings if item.kind == kind for change in item.changes}


def test_the_diverging_log_is_healthy_through_3000_with_a_rising_kl_to_watch() -> None:
    first = diagnosed(LOGS / "divergence.csv").phases[0]
    assert (first.first, first.last, first.severity) == (1000, 3000, Severity.WATCH)
    assert first.text.startswith("healthy (watch: KL rising)")


def test_the_diverging_log_is_lost_from_4000_on() -> None:
    diagnosis = diagnosed(LOGS / "divergence.csv")
    assert [(phase.first, phase.last, phase.severity) for phase in diagnosis.phases[1:]] == [
        (4000, 5000, Severity.CRITICAL)
    ]
    assert {(item.rule, item.first_step) for item in diagnosis.findings} == {
        ("runaway_kl.level", 4000),
        ("runaway_kl.jump", 4000),
        ("reward_hacking.evaluation_falls", 4000),
        ("policy_instability.loss_rise", 4000),
        ("value_failure.loss_rise", 4000),
    }
    assert "probable reward hacking" in diagnosis.verdict


def test_the_diverging_log_shows_reward_up_and_evaluation_down() -> None:
    held_out, score = finding(diagnosed(LOGS / "divergence.csv"), "reward_hacking.evaluation_falls").evidence
    assert (held_out.metric, held_out.before, held_out.last) == ("eval/gold_score", 0.70, 0.62)
    assert (score.metric, score.before, score.last) == ("objective/scores", 3.1, 4.0)


def test_the_diverging_log_leads_to_kl_target_coefficient_samples_and_learning_rate() -> None:
    diagnosis = diagnosed(LOGS / "divergence.csv")
    wanted = {"algorithm.kl_target", "algorithm.kl_coef", "algorithm.learning_rate"}
    assert wanted <= settings_named(diagnosis, "runaway_kl")
    assert any("look at samples" in change.text for item in diagnosis.findings for change in item.changes)


@pytest.mark.parametrize("name", ["snapshot.csv", "snapshot_plain.csv"])
def test_a_snapshot_with_low_entropy_shows_high_kl_and_mode_collapse(name: str) -> None:
    diagnosis = diagnosed(LOGS / name)
    assert {item.kind for item in diagnosis.findings} == {"runaway_kl", "mode_collapse"}
    assert finding(diagnosis, "runaway_kl.level").evidence[0].after == 0.8
    assert {"algorithm.entropy_coef", "algorithm.kl_coef", "data.prompts"} <= settings_named(diagnosis, "mode_collapse")
    assert all(change.risk for item in diagnosis.findings for change in item.changes)
    assert {"eval/gold_score", "response/distinct_2"} & set(diagnosis.to_log)


def test_a_learning_run_has_a_warning_at_most() -> None:
    diagnosis = diagnosed(LOGS / "learning.jsonl")
    assert rules_found(diagnosis) == {"policy_instability.clip_fraction"}
    clip = diagnosis.findings[0]
    assert (clip.severity, clip.first_step, clip.until) == (Severity.WARNING, 1, 6)
    assert "KL 3.73e-07 to 5.11, flattening" in diagnosis.verdict
    assert diagnosis.phases[-1].severity is None
    assert diagnosis.verdict.startswith("warning from ppo step 1, over since step 6: policy unstable. score")


def test_a_frozen_run_says_that_nothing_moves_and_names_both_causes() -> None:
    diagnosis = diagnosed(LOGS / "frozen.jsonl")
    assert rules_found(diagnosis) == {"kl_stuck.zero"}
    (stuck,) = diagnosis.findings
    assert stuck.causes == ("learning rate too low", "beta too high")
    assert [change.text.partition(":")[0] for change in stuck.changes] == [
        "raise algorithm.learning_rate from 1e-06 to about 1e-05",
        "lower algorithm.kl_coef from 1 to about 0.2",
    ]


def test_an_unstable_run_is_critical_from_its_first_updates() -> None:
    diagnosis = diagnosed(LOGS / "unstable.jsonl")
    critical = {item.rule for item in diagnosis.findings if item.severity == Severity.CRITICAL}
    assert {"policy_instability.approx_kl", "runaway_kl.level", "mode_collapse.entropy"} <= critical
    assert diagnosis.phases[0].severity == Severity.CRITICAL
    assert finding(diagnosis, "runaway_kl.level").first_step == 3
    assert finding(diagnosis, "policy_instability.approx_kl").first_step == 1
    texts = [change.text for change in finding(diagnosis, "runaway_kl.level").changes]
    assert any(text.startswith("raise algorithm.kl_coef from 0.05 to about 0.1") for text in texts)
    assert any(text.startswith("lower algorithm.learning_rate from 0.008 to about 0.002") for text in texts)
