"""Policies: what is done about a finding, within limits, and replayed from its record."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_cases import found, ramp

from rlhf_ray.doctor.actions import (
    DEFAULT_LIMITS,
    DEFAULT_POLICIES,
    Action,
    FindingsWriter,
    Policy,
    Rulebook,
    Treatment,
    action_of,
    action_record,
    apply,
    decide,
    replay,
    standing,
    treat,
)
from rlhf_ray.doctor.findings import Finding, Severity
from rlhf_ray.errors import ConfigError

START = Treatment(kl_coef=0.05, learning_rate_share=1.0, checkpoints=(0, 10, 20), num_rollbacks=0, last_action=None)
KL_HIGH: Finding = found({"objective/kl": [1.0] * 14 + [30.0] * 4}, "runaway_kl.level")[0]  # from step 15 on
CLIP: Finding = found({"policy/clipfrac_avg": [0.1] * 14 + [0.3] * 4}, "policy_instability.clip_fraction")[0]


def book(policy: Policy, *kinds: str) -> Rulebook:
    return Rulebook(
        policies=dict.fromkeys(kinds or ("runaway_kl", "policy_instability"), policy), limits=DEFAULT_LIMITS
    )


def test_nan_stops_and_everything_else_warns_by_default() -> None:
    assert {kind for kind, policy in DEFAULT_POLICIES.items() if policy != Policy.WARN} == {"nonfinite"}
    assert DEFAULT_POLICIES["nonfinite"] == Policy.STOP


def test_a_warning_changes_nothing() -> None:
    action = decide(KL_HIGH, START, book(Policy.WARN), step=18)
    assert action.policy == Policy.WARN
    assert apply(action, START) == START


def test_adapting_to_a_high_kl_raises_beta_and_lowers_the_rate() -> None:
    action = decide(KL_HIGH, START, book(Policy.ADAPT), step=18)
    assert (action.policy, action.kl_coef, action.learning_rate_share) == (Policy.ADAPT, pytest.approx(0.075), 0.5)
    assert "algorithm.kl_coef 0.05 -> 0.075, learning rates x 0.5" in action.reason


def test_adapting_to_instability_leaves_beta() -> None:
    action = decide(CLIP, START, book(Policy.ADAPT), step=18)
    assert (action.kl_coef, action.learning_rate_share) == (0.05, 0.5)


def test_beta_zero_gets_a_start() -> None:
    assert decide(KL_HIGH, replace(START, kl_coef=0.0), book(Policy.ADAPT), step=18).kl_coef == 0.05


def test_adapting_stops_at_its_limits() -> None:
    far = replace(START, kl_coef=1.0, learning_rate_share=0.1)
    action = decide(KL_HIGH, far, book(Policy.ADAPT), step=18)
    assert action.policy == Policy.WARN
    assert "at their limits" in action.reason
    near = replace(START, kl_coef=0.9, learning_rate_share=0.15)
    action = decide(KL_HIGH, near, book(Policy.ADAPT), step=18)
    assert (action.kl_coef, action.learning_rate_share) == (1.0, 0.1)


def test_a_beta_above_the_limit_is_never_lowered() -> None:
    assert decide(KL_HIGH, replace(START, kl_coef=3.0), book(Policy.ADAPT), step=18).kl_coef == 3.0


def test_an_action_is_given_time() -> None:
    treated = replace(START, last_action=16)
    assert decide(KL_HIGH, treated, book(Policy.ADAPT), step=18).policy == Policy.WARN
    assert decide(KL_HIGH, treated, book(Policy.ADAPT), step=19).policy == Policy.ADAPT


def test_a_rollback_goes_to_the_last_checkpoint_before_the_onset_with_settings_changed() -> None:
    action = decide(KL_HIGH, START, book(Policy.ROLLBACK), step=22)
    assert (action.rollback_to, action.kl_coef, action.learning_rate_share) == (10, pytest.approx(0.075), 0.5)
    after = apply(action, START)
    assert after.checkpoints == (0, 10)
    assert (after.num_rollbacks, after.last_action) == (1, 10)


@pytest.mark.parametrize(
    ("treatment", "words"),
    [
        (replace(START, num_rollbacks=2), "there were 2 rollbacks already"),
        (replace(START, checkpoints=(20,)), "no checkpoint is from before step 15"),
    ],
)
def test_rollbacks_are_bounded(treatment: Treatment, words: str) -> None:
    action = decide(KL_HIGH, treatment, book(Policy.ROLLBACK), step=22)
    assert action.policy == Policy.WARN
    assert words in action.reason


def test_early_stop_ends_a_run_that_has_converged() -> None:
    flat = {
        "objective/scores": [0.1 * i for i in range(8)] + [0.7, 0.71] * 8,
        "objective/kl": [0.5 * i for i in range(24)],
    }
    (finding,) = found(flat, "plateau.score_flat")
    assert decide(finding, START, book(Policy.EARLY_STOP, "plateau"), step=24).policy == Policy.EARLY_STOP


def test_what_is_only_watched_is_not_adapted_to() -> None:
    (rising,) = found({"objective/kl": [12.0] * 5}, "runaway_kl.level")
    assert decide(rising, START, book(Policy.ADAPT), step=5).policy == Policy.WARN


def test_after_a_stop_the_other_findings_of_the_step_are_only_told() -> None:
    rulebook = Rulebook(policies={"runaway_kl": Policy.STOP, "policy_instability": Policy.ADAPT}, limits=DEFAULT_LIMITS)
    actions, after = treat([CLIP, KL_HIGH], START, rulebook, step=18)
    worst_first = [action.policy for action in sorted(actions, key=lambda action: action.kind, reverse=True)]
    assert Policy.STOP in worst_first
    assert after.kl_coef == START.kl_coef


def test_a_stop_waits_for_more_than_what_is_to_be_watched() -> None:
    (rising,) = found({"objective/kl": [12.0] * 5}, "runaway_kl.level")
    assert decide(rising, START, book(Policy.STOP), step=5).policy == Policy.WARN
    assert decide(KL_HIGH, START, book(Policy.STOP), step=18).policy == Policy.STOP


def test_a_plateau_is_acted_on_although_it_is_only_watched() -> None:
    flat = {"objective/scores": ramp(0, 1, 8) + [1.0, 1.01] * 8, "objective/kl": ramp(0, 12, 24)}
    (finding,) = found(flat, "plateau.score_flat")
    assert finding.severity == Severity.WATCH
    assert decide(finding, START, book(Policy.STOP, "plateau"), step=24).policy == Policy.STOP
    assert decide(finding, START, book(Policy.ADAPT, "plateau"), step=24).kl_coef == pytest.approx(0.075)


def test_no_rollback_to_the_same_course() -> None:
    far = replace(START, kl_coef=1.0, learning_rate_share=0.1)
    action = decide(KL_HIGH, far, book(Policy.ROLLBACK), step=22)
    assert (action.policy, action.rollback_to) == (Policy.WARN, None)
    assert action.reason.endswith("are at their limits, or neither is the cause, so the same would come again")


def test_outside_ppo_there_is_nothing_to_adapt_and_nothing_to_end_early() -> None:
    sft = found({"sft/loss": [2.0] * 12, "sft/grad_norm": [1.0] * 9 + [50.0] * 3}, "gradient_explosion.norm")[0]
    for policy in (Policy.ADAPT, Policy.ROLLBACK, Policy.EARLY_STOP):
        assert decide(sft, START, book(policy, "gradient_explosion"), step=12).policy == Policy.WARN
    assert decide(sft, START, book(Policy.STOP, "gradient_explosion"), step=12).policy == Policy.STOP


def test_a_resume_forgets_what_was_done_after_its_checkpoint() -> None:
    treatment, records = START, []
    for step in (10, 14):
        (action,), treatment = treat([KL_HIGH], treatment, book(Policy.ADAPT), step=step)
        records.append(action_record(action))
    assert replay(standing(records, step=14), START).last_action == 14
    at_12 = replay(standing(records, step=12), START)
    assert (at_12.last_action, at_12.kl_coef) == (10, pytest.approx(0.075))
    assert standing(records, step=9) == []


def test_a_rollback_counts_after_a_resume_from_before_it() -> None:
    (back,), _ = treat([KL_HIGH], START, book(Policy.ROLLBACK), step=22)
    (late,), _ = treat([KL_HIGH], START, book(Policy.ADAPT), step=17)  # after it, and undone
    records = [{"record": "finding", "step": 22}, action_record(back), action_record(late)]
    after = replay(standing(records, step=12), START)
    assert (after.num_rollbacks, after.last_action) == (1, 10)


def test_a_policy_for_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="doctor policy for runaway: no such kind; known are runaway_kl"):
        book(Policy.STOP, "runaway")


def test_the_record_alone_gives_what_is_in_force(tmp_path: Path) -> None:
    writer, treatment = FindingsWriter(tmp_path), START
    for step, finding, policy in (
        (18, KL_HIGH, Policy.ADAPT),
        (23, CLIP, Policy.ADAPT),
        (30, KL_HIGH, Policy.ROLLBACK),
    ):
        writer.finding(step, finding)
        (action,), treatment = treat([finding], treatment, book(policy), step=step)
        writer.action(action)
    writer.close()
    records = [json.loads(line) for line in (tmp_path / "findings.jsonl").read_text().splitlines()]
    assert [record["record"] for record in records] == ["finding", "action"] * 3
    assert replay(records, START) == treatment
    assert (treatment.kl_coef, treatment.learning_rate_share) == (pytest.approx(0.1125), 0.125)


def test_an_action_survives_its_record() -> None:
    action: Action = decide(KL_HIGH, START, book(Policy.ROLLBACK), step=22)
    assert action_of(json.loads(json.dumps(action_record(action)))) == action
