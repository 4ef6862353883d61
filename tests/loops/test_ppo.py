"""The loop over a real team: what ends it, what moves beta, and what a learning rate of 0 does."""

import dataclasses
import json

import pytest
from small_run import by_step, read_metrics

from rlhf_ray.loops.ppo import PpoHooks, PpoState, Verdict, train_ppo
from rlhf_ray.pipeline import stage_settings
from rlhf_ray.pipeline.monitor import above_limit
from rlhf_ray.pipeline.stages import ppo_stage
from rlhf_ray.types import Last, StopRule

START = {"kl_coef": 0.05, "learning_rate_share": 1.0}


def ppo(bench, run_dir, *words: str):
    """The PPO stage over the open team; rows by iteration."""
    with bench.context(run_dir, *words) as ctx:
        ppo_stage(ctx, policy=bench.policy, reward=bench.reward)
    return by_step(read_metrics(run_dir, "ppo"))


def test_a_learning_rate_of_0_moves_nothing(local_bench, tmp_path):
    rows = ppo(local_bench, tmp_path / "run", "algorithm.learning_rate=0", "evaluation.every=1", "algorithm.epochs=4")
    measured = [
        {name: value for name, value in rows[step].items() if name.startswith("eval/")} for step in (0, 1, 2, 3)
    ]
    assert len(measured[0]) > 8
    assert measured[1:] == [measured[0]] * 3
    assert {rows[step]["policy/ratio_max"] for step in (1, 2, 3)} == {1.0}
    assert {rows[step]["objective/kl"] for step in (1, 2, 3)} == {0.0}
    before, after = (
        folder / "model.safetensors" for folder in (local_bench.policy, tmp_path / "run" / "artifacts" / "policy")
    )
    assert before.read_bytes() == after.read_bytes()


def test_a_reason_ends_the_run_after_that_iteration_with_everything_written(local_bench, tmp_path):
    run_dir, told, asked = tmp_path / "run", [], []

    def examine(state, stats):
        asked.append((state.step, "objective/kl" in stats, "time/iteration" in stats))
        return Verdict(**START, rollback_to=None, stop="enough" if state.step == 2 else None)

    with local_bench.context(run_dir, "algorithm.num_iterations=9", "evaluation.every=9") as ctx:
        local_bench.open_models(tmp_path / "models")
        from rlhf_ray.actors.ppo_team import ActorPpoTeam

        team = ActorPpoTeam(
            ctx.opened.team, stage_settings.ppo_team_settings(ctx.config, has_demonstrations=True, retokenize=False)
        )
        team.evaluate(0)
        checkpoints = ctx.checkpoints("ppo", every=5, parts=("policy", "critic"))
        hooks = PpoHooks(
            watch=team,
            record=lambda step, stats: told.append((step, "eval/win_rate" in stats)),
            examine=examine,
            rollback=lambda step: pytest.fail(f"nobody asked to go back to {step}"),
            checkpoints=checkpoints,
        )
        state, reason = train_ppo(team, stage_settings.ppo_settings(ctx.config), PpoState(step=0, **START), hooks)
    assert (state.step, reason) == (2, "enough")
    assert asked == [(1, True, True), (2, True, True)]
    assert told == [(1, False), (2, True)]
    assert checkpoints.store.latest().step == 2


def test_the_kl_limit_of_the_settings_ends_the_run_with_its_numbers(local_bench, tmp_path):
    rows = ppo(local_bench, tmp_path / "run", "algorithm.stop_above_kl=1e-9", "algorithm.num_iterations=9")
    assert sorted(rows) == [0, 1, 2], "at iteration 1 the policy is the reference"
    card = json.loads((tmp_path / "run" / "artifacts" / "policy" / "artifact.json").read_text())
    assert card["version"] == 2
    assert above_limit({"objective/kl": Last(6.25)}, step=4, limit=5.0) == (
        "objective/kl=6.25 nats at iteration 4 is above algorithm.stop_above_kl=5"
    )
    assert above_limit({"objective/kl": Last(5.0)}, step=4, limit=5.0) is None
    assert above_limit({"objective/kl": Last(99.0)}, step=4, limit=None) is None


def test_beta_follows_the_rule_and_is_kept_for_a_resume(local_bench, tmp_path):
    """beta * (1 + clip(KL / target - 1, -0.2, 0.2) * 16 answers / 160)"""
    words = ("algorithm.kl_target=0.2", "algorithm.kl_horizon=160", "algorithm.kl_coef=0.05")
    rows = ppo(local_bench, tmp_path / "run", *words)
    beta = 0.05
    for step in (1, 2, 3):
        assert rows[step]["objective/kl_coef"] == pytest.approx(beta, rel=1e-12)
        error = min(max(rows[step]["objective/kl"] / 0.2 - 1.0, -0.2), 0.2)
        beta *= 1.0 + error * 16 / 160
    assert rows[2]["objective/kl_coef"] == pytest.approx(0.05 * (1 - 0.2 * 0.1)), "KL 0 at first: the lower bound"
    manifest = next((tmp_path / "run" / "checkpoints" / "ppo").glob("step-000003/manifest.json"))
    assert json.loads(manifest.read_text())["state"]["kl_coef"] == pytest.approx(beta, rel=1e-12)


def test_the_rule_for_stopping_passes_reaches_the_policy_only(local_bench, tmp_path):
    from rlhf_ray.actors.ppo_team import ActorPpoTeam
    from rlhf_ray.loops.ppo import iteration

    counts = {}
    for name, above in (("never", None), ("at once", -1.0)):
        config = local_bench.config(tmp_path / "run", "algorithm.epochs=4")
        local_bench.open_models(tmp_path / name)
        team = ActorPpoTeam(
            local_bench.opened.team, stage_settings.ppo_team_settings(config, has_demonstrations=True, retokenize=False)
        )
        stop = None if above is None else StopRule(metric="policy/approxkl_k3_avg", above=above)
        loop = dataclasses.replace(stage_settings.ppo_settings(config), stop=stop)
        _, stats = iteration(team, loop, PpoState(step=0, **START))
        counts[name] = (stats["policy/grad_norm"].count, stats["val/grad_norm"].count)
    assert counts == {"never": (4, 4), "at once": (1, 4)}


def test_the_settings_turn_a_target_into_a_limit(tmp_path):
    from small_run import small_config

    config = small_config(tmp_path / "run", "generator=hf", "algorithm.target_approx_kl=0.02")
    assert stage_settings.ppo_settings(config).stop == StopRule(
        metric="policy/approxkl_k3_avg", above=pytest.approx(0.03)
    )
