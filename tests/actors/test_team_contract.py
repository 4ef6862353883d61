"""The worker team keeps its promises on Ray and in this process alike."""

import hashlib
from typing import get_args

import numpy as np
import pytest
from small_run import LOCAL, Bench
from team_fixtures import opened_bench

from rlhf_ray.actors.local_runtime import LocalRuntime
from rlhf_ray.actors.ppo_team import ActorPpoTeam
from rlhf_ray.errors import StaleGeneratorError
from rlhf_ray.loops.ppo import PpoState, iteration, updates
from rlhf_ray.pipeline import stage_settings
from rlhf_ray.tracking.registry import check_names
from rlhf_ray.types import Completions, PolicyTargets, Ref, Rollouts, Stat, TrainBatch


def ppo_team(bench: Bench, tmp_path) -> ActorPpoTeam:
    """Over fresh models, version 0 in the generators."""
    bench.open_models(tmp_path / "models")
    config = bench.config(tmp_path / "run")
    return ActorPpoTeam(
        bench.opened.team, stage_settings.ppo_team_settings(config, has_demonstrations=True, retokenize=False)
    )


def weights_digest(model) -> str:
    """Over all parameters and buffers."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def fetched(bench: Bench, ref: Ref):
    """What the driver of a run never does."""
    return bench.opened.team.runtime.gather([ref])[0]


def test_one_round_goes_through_every_call_and_only_refs_and_numbers_reach_the_driver(bench, tmp_path):
    team, loop = ppo_team(bench, tmp_path), stage_settings.ppo_settings(bench.config(tmp_path / "run"))
    before = team.evaluate(0)
    completions = team.generate(0)
    rollouts = team.assess(completions)
    experience, measured = team.estimate(rollouts, step=0, kl_coef=0.05)
    policy, critic = updates(loop, PpoState(step=0, kl_coef=0.05, learning_rate_share=1.0))
    learned = team.update(experience, policy, critic)
    synced = team.sync(version=1)
    evaluated = team.evaluate(1)

    assert all(isinstance(ref, Ref) for ref in (completions, rollouts, experience.policy, experience.critic))
    for stats in (before, measured, learned, synced, evaluated):
        check_names(stats)
        assert all(type(stat) in get_args(Stat) for stat in stats.values())
    answers = fetched(bench, completions)
    assert isinstance(answers, Completions)
    assert len(answers.tokens) == 16
    assert answers.versions.tolist() == [[0, 0]] * 16
    whole = fetched(bench, rollouts)
    assert isinstance(whole, Rollouts)
    for numbers in (whole.logprobs, whole.ref_logprobs, whole.values):
        assert np.array_equal(numbers.offsets, answers.tokens.offsets)
    batch = fetched(bench, experience.policy)
    assert isinstance(batch, TrainBatch)
    assert isinstance(batch.targets, PolicyTargets)


def test_new_answers_carry_the_new_version_and_the_old_one_is_refused(bench, tmp_path):
    team = ppo_team(bench, tmp_path)
    team.sync(version=1)
    assert fetched(bench, team.generate(1)).versions.tolist() == [[1, 1]] * 16
    with pytest.raises(StaleGeneratorError, match=r"^ppo iteration 1: generator-\d\.generate: version 0 was asked for"):
        fetched(bench, team.generate(0))


def test_both_teams_give_the_same_answers_in_the_order_of_the_prompts(local_bench, ray_bench, tmp_path):
    ours = fetched(local_bench, ppo_team(local_bench, tmp_path / "local").generate(0))
    theirs = fetched(ray_bench, ppo_team(ray_bench, tmp_path / "ray").generate(0))
    assert ours.prompts.ids == theirs.prompts.ids
    assert np.array_equal(ours.tokens.values, theirs.tokens.values)
    assert np.array_equal(ours.logprobs.values, theirs.logprobs.values)


def test_two_generators_answer_as_one_to_the_bit(finished_run, tmp_path):
    """One row at a time: a row's log-probs depend on the rows it is computed with, in the last bits."""
    answers = []
    for count in (1, 2):
        words = (*LOCAL, "generator.max_num_seqs=1", f"generator.num_replicas={count}")
        folder = tmp_path / str(count)
        folder.mkdir()
        with opened_bench(LocalRuntime, folder / "run", finished_run, words) as bench:
            answers.append(fetched(bench, ppo_team(bench, folder).generate(0)))
    one, two = answers
    assert one.prompts.ids == two.prompts.ids
    assert one.texts == two.texts
    assert np.array_equal(one.tokens.values, two.tokens.values)
    assert np.array_equal(one.logprobs.values, two.logprobs.values)


def test_the_frozen_models_stay_what_they_are_while_the_policy_moves(local_bench, tmp_path):
    team, config = ppo_team(local_bench, tmp_path), local_bench.config(tmp_path / "run")
    workers = local_bench.opened.team.workers
    frozen = (workers.reference.handle._model, workers.reward.handle._scorer._model)
    moving = (workers.policy.handle._model, workers.critic.handle._model)

    before = [weights_digest(model) for model in (*frozen, *moving)]
    iteration(team, stage_settings.ppo_settings(config), PpoState(step=0, kl_coef=0.05, learning_rate_share=1.0))
    after = [weights_digest(model) for model in (*frozen, *moving)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, False]
