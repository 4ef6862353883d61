"""Every rule finds its illness in a made log, with the right onset, and nothing in a healthy one."""

import pytest
from doctor_cases import Made, found, ramp
from doctor_made_policy import MADE_POLICY
from doctor_made_reward import MADE_REWARD

from rlhf_ray.doctor.checks.registry import CHECKS
from rlhf_ray.doctor.findings import Severity
from rlhf_ray.doctor.rules import RULES

MADE = (*MADE_POLICY, *MADE_REWARD)


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.rule)
def test_the_illness_is_found_at_its_onset(made: Made) -> None:
    (finding,) = found(made.sick, made.rule, **made.facts)
    assert (finding.severity, finding.first_step) == (made.severity, made.onset)
    assert finding.evidence


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.rule)
def test_a_healthy_log_has_no_such_finding(made: Made) -> None:
    assert found(made.healthy, made.rule, **made.facts) == []


def test_every_rule_has_a_check_and_a_made_log() -> None:
    assert set(CHECKS) == set(RULES.by_name)
    assert {made.rule for made in MADE} == set(RULES.by_name) - {"nonfinite.value"}  # test_numbers_checks.py


def test_what_has_passed_is_told_with_its_end() -> None:
    clip = [0.5, 0.5, 0.4, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1]
    (finding,) = found({"policy/clipfrac_avg": clip}, "policy_instability.clip_fraction")
    assert (finding.first_step, finding.until) == (1, 5)


def test_evidence_holds_medians_before_and_after() -> None:
    (finding,) = found({"objective/kl": [1, 2, 3, 30, 32, 34, 36]}, "runaway_kl.level")
    (evidence,) = finding.evidence
    assert (evidence.before, evidence.after, evidence.last, evidence.limit) == (2, 32, 36, 25)


def test_the_limit_is_shown_where_short_answers_are_judged_among_long_ones() -> None:
    log = {"objective/kl": [1, 2, 3, 30, 32, 34, 36], "response/length_mean": [100.0] * 7}
    (finding,) = found(log, "runaway_kl.level")
    assert finding.evidence[0].limit == 25


def test_throughput_is_shown_in_its_own_unit() -> None:
    (finding,) = found(MADE[-1].sick, "stalled_throughput.time")
    (evidence,) = finding.evidence
    assert evidence.metric == "throughput/tokens_per_second"
    assert evidence.before == pytest.approx(900, rel=0.01)
    assert evidence.after == pytest.approx(190)


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        ([0.1, 0.3, 0.5, 0.6, 0.7], "; the held-out score still rises (0.7)"),
        ([0.1, 0.3, 0.5, 0.6, 0.4], "; the held-out score rose on to 0.6, and is 0.4 now"),
        ([0.1, 0.3, 0.5, 0.4, 0.2], "; the held-out score has not risen since (0.5 before, 0.2 now)"),
        ([0.1, 0.3, 0.5], "; the held-out score was not measured since"),
    ],
)
def test_a_score_above_the_ceiling_is_told_with_what_gold_did_since(gold: list[float], words: str) -> None:
    log = {"objective/scores": [0.5, 1.0, 1.5, 2.0, 2.1, 2.2], "eval/gold_score": gold}
    (finding,) = found(log, "reward_hacking.above_ceiling", ceiling=1.6)
    assert finding.summary.endswith(words)
    assert finding.severity == Severity.WARNING
    assert [item.metric for item in finding.evidence] == ["objective/scores", "eval/gold_score"]


def test_too_few_pairs_tell_nothing_about_a_reward_model() -> None:
    at_chance = {"reward_model/val_accuracy": [0.5, 0.5, 0.5]}
    assert found(at_chance | {"reward_model/num_val_pairs": [6.0, 6.0, 6.0]}, "reward_model_near_chance.accuracy") == []
    assert found(at_chance | {"reward_model/num_val_pairs": [60.0] * 3}, "reward_model_near_chance.accuracy") != []


def test_a_reward_model_that_never_agreed_with_the_judge_is_not_hacked() -> None:
    assert found({"eval/preference_accuracy": [0.4, 0.4, 0.4, 0.4]}, "reward_hacking.preferences") == []


def test_the_critics_first_updates_are_not_judged() -> None:
    assert found({"val/explained_variance": [-7.0, -5.0, -4.0]}, "value_failure.explained_variance") == []


@pytest.mark.parametrize(("judged", "severity"), [(1, None), (2, Severity.WARNING), (3, Severity.CRITICAL)])
def test_the_first_points_after_the_warm_up_must_last_like_any_others(judged: int, severity: Severity | None) -> None:
    log = {"val/explained_variance": [-7.0, -5.0, -4.0] + [-3.0] * judged}
    findings = found(log, "value_failure.explained_variance")
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])


def test_the_only_point_of_a_metric_is_enough_in_a_log_of_one_step_alone() -> None:
    assert found({"objective/kl": [90.0]}, "runaway_kl.level") != []
    assert found({"objective/kl": [90.0], "objective/scores": [1.0, 2.0, 3.0]}, "runaway_kl.level") == []


def test_a_held_out_score_that_rose_and_fell_again_is_not_flat() -> None:
    gold = ramp(0.1, 0.85, 25) + ramp(0.85, -0.2, 35)
    log = {"objective/scores": ramp(0.0, 3.0, 60), "eval/gold_score": gold, "objective/kl": ramp(0.0, 60.0, 60)}
    assert found(log, "reward_hacking.evaluation_flat") == []
    assert found(log, "reward_hacking.evaluation_falls") != []


def test_a_collapse_is_told_with_its_start_and_its_limit() -> None:
    (finding,) = found({"policy/entropy_avg": [2.0, 2.0, 2.0, 2.0, 2.0, 0.9, 0.8, 0.8]}, "mode_collapse.entropy")
    assert finding.summary == "the entropy per token has fallen below 50% of its start (2)"
    assert finding.evidence[0].limit == 1.0


def test_a_win_rate_without_gold_is_called_what_it_is() -> None:
    log = {"objective/scores": [0.5, 1.0, 1.5, 2.0, 2.1, 2.2], "eval/win_rate": [0.5, 0.6, 0.7, 0.8, 0.9]}
    (finding,) = found(log, "reward_hacking.above_ceiling", ceiling=1.6)
    assert finding.summary.endswith("; the win rate (no gold score is recorded) still rises (0.9)")
