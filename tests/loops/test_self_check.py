"""Each identity of step 0, broken on purpose, ends the run before anything is trained."""

import dataclasses

import pytest
from faulty_workers import SmallBucketsLearner

from rlhf_ray.actors.frozen_workers import ReferenceWorker
from rlhf_ray.actors.learner_worker import LearnerWorker, ScalarStart
from rlhf_ray.actors.ppo_team import ActorPpoTeam
from rlhf_ray.errors import SelfCheckError, StaleGeneratorError
from rlhf_ray.loops.ppo import PpoState, updates
from rlhf_ray.loops.self_check import CheckLimits, check_identities
from rlhf_ray.models.load import HeadStart
from rlhf_ray.pipeline import stage_settings
from rlhf_ray.types import Last, Max, Mean

LIMITS = CheckLimits(ratio=1e-4, kl=1e-4, logprob_gap=1e-3, critic_gap=1e-4)
HOLDING = {
    "val/ratio": Mean(40.0, 40.0),
    "policy/ratio_max": Max(1.0),
    "policy/clipfrac_avg": Mean(0.0, 40.0),
    "policy/approxkl_avg": Mean(0.0, 40.0),
    "rollout/logprob_absdiff_max": Max(2e-5),
    "objective/kl": Mean(0.0, 8.0),
    "check/critic_gap": Last(1e-6),
}
BROKEN = {
    "val/ratio": Mean(40.1, 40.0),
    "policy/ratio_max": Max(1.001),
    "policy/clipfrac_avg": Mean(1.0, 40.0),
    "policy/approxkl_avg": Mean(0.1, 40.0),
    "rollout/logprob_absdiff_max": Max(0.19),
    "objective/kl": Mean(1.0, 8.0),
    "check/critic_gap": Last(0.5),
}


def test_identities_that_hold_pass():
    check_identities(HOLDING, step=0, limits=LIMITS)


@pytest.mark.parametrize("name", HOLDING)
def test_one_broken_identity_is_named_with_its_numbers(name):
    with pytest.raises(SelfCheckError) as caught:
        check_identities(HOLDING | {name: BROKEN[name]}, step=0, limits=LIMITS)
    lines = [line for line in str(caught.value).splitlines() if "BROKEN" in line]
    assert len(lines) == 1
    assert f" {name} = {BROKEN[name].value} (expected " in lines[0]
    assert str(caught.value).count("  ok ") == len(HOLDING) - 1


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_number_that_is_none_is_broken(value):
    with pytest.raises(SelfCheckError, match=r"BROKEN check/critic_gap"):
        check_identities(HOLDING | {"check/critic_gap": Last(value)}, step=0, limits=LIMITS)


def test_what_training_changes_is_not_asked_after_a_resume():
    moved = HOLDING | {"objective/kl": Mean(30.0, 8.0), "check/critic_gap": Last(2.0)}
    check_identities(moved, step=3, limits=LIMITS)
    with pytest.raises(SelfCheckError, match="identities of step 3"):
        check_identities(HOLDING | {"val/ratio": BROKEN["val/ratio"]}, step=3, limits=LIMITS)


def measured(bench, tmp_path) -> None:
    """Measure on the open team what it holds now, and check it as the loop does."""
    config = bench.config(tmp_path / "run")
    team = ActorPpoTeam(
        bench.opened.team, stage_settings.ppo_team_settings(config, has_demonstrations=True, retokenize=False)
    )
    loop = stage_settings.ppo_settings(config)
    state = PpoState(step=0, kl_coef=config.algorithm.kl_coef, learning_rate_share=1.0)
    policy, _ = updates(loop, state)
    check_identities(team.self_check(0, kl_coef=state.kl_coef, policy=policy), step=0, limits=loop.limits)


def broken(message: str) -> set[str]:
    """The metrics that a message calls broken."""
    return {line.split()[1] for line in message.splitlines() if line.split()[:1] == ["BROKEN"]}


def test_a_healthy_team_passes(bench, tmp_path):
    bench.open_models(tmp_path / "models")
    measured(bench, tmp_path)


def test_another_temperature_in_the_generator_is_found(local_bench, tmp_path):
    local_bench.open_models(tmp_path / "models")
    team = local_bench.opened.team
    team.sampling = dataclasses.replace(team.sampling, temperature=0.7)
    try:
        with pytest.raises(SelfCheckError) as caught:
            measured(local_bench, tmp_path)
    finally:
        team.sampling = dataclasses.replace(team.sampling, temperature=1.0)
    assert broken(str(caught.value)) == {"rollout/logprob_absdiff_max"}


def test_a_critic_that_is_not_the_reward_model_is_found(local_bench, tmp_path):
    local_bench.open_models(tmp_path / "models")
    team = local_bench.opened.team
    scalar = ScalarStart(start=HeadStart.ZERO, head="score", seed=1)
    start = (local_bench.policy, scalar, stage_settings.CRITIC_METRICS)
    team.runtime.gather([team.runtime.call(team.workers.critic, LearnerWorker.open_scalar, *start)])
    with pytest.raises(SelfCheckError) as caught:
        measured(local_bench, tmp_path)
    assert broken(str(caught.value)) == {"check/critic_gap"}


def test_a_reference_that_is_another_model_is_found(local_bench, tmp_path):
    local_bench.open_models(tmp_path / "models")
    team = local_bench.opened.team
    other = local_bench.policy.with_name("base-model")
    team.runtime.gather([team.runtime.call(team.workers.reference, ReferenceWorker.open, other, "cpu")])
    with pytest.raises(SelfCheckError) as caught:
        measured(local_bench, tmp_path)
    assert broken(str(caught.value)) == {"objective/kl"}


def test_generators_with_older_weights_than_their_label_are_found(local_bench, tmp_path):
    """The policy is another one now, and was not sent."""
    local_bench.open_models(tmp_path / "models")
    team = local_bench.opened.team
    other = (local_bench.policy.with_name("base-model"), stage_settings.POLICY_METRICS)
    team.runtime.gather([team.runtime.call(team.workers.policy, LearnerWorker.open_policy, *other)])
    with pytest.raises(SelfCheckError) as caught:
        measured(local_bench, tmp_path)
    assert "rollout/logprob_absdiff_max" in broken(str(caught.value))


def test_generators_of_another_version_do_not_answer(local_bench, tmp_path):
    local_bench.open_models(tmp_path / "models")
    local_bench.opened.team.sync(version=7)
    with pytest.raises(StaleGeneratorError, match="version 0 was asked for, version 7 is loaded"):
        measured(local_bench, tmp_path)


def test_old_log_probs_that_are_not_the_policys_are_found(local_bench, tmp_path):
    """As when dropout is left on while they are computed."""
    local_bench.open_models(tmp_path / "models")
    team = local_bench.opened.team
    shift = SmallBucketsLearner.shift_logprobs
    team.runtime.gather([team.runtime.call(team.workers.policy, shift, 0.3)])
    try:
        with pytest.raises(SelfCheckError) as caught:
            measured(local_bench, tmp_path)
    finally:
        team.runtime.gather([team.runtime.call(team.workers.policy, shift, 0.0)])
    found = broken(str(caught.value))
    assert {"val/ratio", "policy/ratio_max", "policy/clipfrac_avg", "policy/approxkl_avg"} <= found
