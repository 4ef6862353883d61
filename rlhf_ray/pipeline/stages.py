"""The three stages. Each takes model directories and gives one; a stage whose result is there is not run again."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from rlhf_ray.actors.frozen_workers import ReferenceWorker, RewardWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker, ScalarStart
from rlhf_ray.actors.ppo_team import ActorPpoTeam
from rlhf_ray.actors.team import learner_path
from rlhf_ray.actors.trainees import RewardModelTrainee, SftTrainee
from rlhf_ray.checkpoint.store import Checkpoint
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.errors import ConfigError
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.loops.ppo import PpoHooks, PpoState, train_ppo
from rlhf_ray.loops.supervised import SupervisedHooks, train_supervised
from rlhf_ray.models.directory import SCORE_HEAD
from rlhf_ray.models.load import HeadStart
from rlhf_ray.pipeline import stage_settings
from rlhf_ray.pipeline.artifacts import Result, earlier_result, export, made_from
from rlhf_ray.pipeline.candidates import RewardModelCandidates, last_step
from rlhf_ray.pipeline.context import Context
from rlhf_ray.pipeline.preference_rows import normalize, preferences
from rlhf_ray.pipeline.reward_text import open_reward_text
from rlhf_ray.pipeline.supervised_records import reference_scores, reward_model_facts, sft_validation, with_rouge
from rlhf_ray.tracking.artifacts import ArtifactId
from rlhf_ray.tracking.values import reduce_stats
from rlhf_ray.types import Stats, Sum

SFT_POLICY, REWARD_MODEL, POLICY = "sft-policy", "reward-model", "policy"
HEADLINE = ("eval/gold_score", "eval/win_rate", "eval/kl")


def sft_stage(ctx: Context) -> Path:
    """Supervised fine-tuning of the base model on demonstrations."""
    given = made_from(ctx, {"base": ctx.opened.base_model})
    done = earlier_result(ctx, "sft", SFT_POLICY, given)
    if done is not None:
        return done
    team, workers = ctx.opened.team, ctx.opened.team.workers
    runtime = team.runtime
    runtime.at("sft")
    train, held_out = HandedRows(team, RowSet.DEMONSTRATIONS), HandedRows(team, RowSet.HELD_OUT_DEMONSTRATIONS)
    runtime.gather(
        [runtime.call(workers.policy, LearnerWorker.open_policy, ctx.opened.base_model, stage_settings.SFT_METRICS)]
    )
    sft = stage_settings.sft_settings(ctx.config, train.size)
    checkpoints = ctx.checkpoints("sft", every=ctx.config.checkpoint.sft_every, parts=("policy",))
    start = resume_supervised(ctx, "sft", checkpoints, role="policy")
    ctx.display.stage("sft", total=sft.num_steps, done=start)
    hooks = SupervisedHooks(
        record=with_rouge(ctx, ctx.recorder("sft", given), sft),
        validation=sft_validation,
        finish=dict,
        checkpoints=checkpoints,
    )
    trainee = SftTrainee(team, workers.policy, train=train, held_out=held_out)
    last = train_supervised(trainee, sft, start=start, hooks=hooks)
    result = Result(
        stage="sft",
        identity=ArtifactId(kind="policy", name=SFT_POLICY, version=sft.num_steps),
        made_from=given,
        headline=only(last, "sft/loss", "sft/val_loss", "sft/perplexity"),
        decision=last_step(ctx.records.rows(), metric="sft/val_loss", sign=-1),
    )
    return export(ctx, workers.policy, result)


def reward_model_stage(ctx: Context, policy: Path) -> Path:
    """A reward model that starts from the policy and learns which of its answers are preferred."""
    given = made_from(ctx, {"policy": policy})
    done = earlier_result(ctx, "reward_model", REWARD_MODEL, given)
    if done is not None:
        return done
    team, workers = ctx.opened.team, ctx.opened.team.workers
    runtime = team.runtime
    runtime.at("reward_model")
    opening = runtime.call(
        workers.critic,
        LearnerWorker.open_scalar,
        policy,
        ScalarStart(start=HeadStart.RANDOM, head=SCORE_HEAD, seed=ctx.config.seed),
        stage_settings.REWARD_MODEL_METRICS,
    )
    train, held_out = preferences(ctx, policy)
    runtime.gather([opening])
    loop = stage_settings.reward_model_settings(ctx.config, train.size)
    checkpoints = ctx.checkpoints("reward_model", every=ctx.config.checkpoint.reward_model_every, parts=("critic",))
    start = resume_supervised(ctx, "reward_model", checkpoints, role="critic")
    ctx.display.stage("reward_model", total=loop.num_steps, done=start)
    trainee = RewardModelTrainee(
        team, workers.critic, train=train, held_out=held_out, clear_gap=ctx.config.reward_model.clear_gap
    )
    candidates = RewardModelCandidates(
        ctx.run_dir / "checkpoints" / "reward_model_best",
        rows=[row for row in ctx.records.rows() if row["stage"] == "reward_model"],
        save=trainee.save,
    )
    record = ctx.recorder("reward_model", given)

    def record_and_consider(step: int, stats: Stats) -> None:
        record(step, stats)
        if 0 < step < loop.num_steps and "reward_model/val_accuracy" in stats:
            candidates.consider(step, stats)

    def choose_and_normalize() -> Stats:
        validated = trainee.evaluate(loop.loss)
        candidates.decide(loop.num_steps, validated, load=lambda folder: load(ctx, folder, roles=("critic",)))
        return normalize(ctx, train) | reference_scores(ctx) | {"reward_model/num_pairs": Sum(int(train.size.divisor))}

    hooks = SupervisedHooks(
        record=record_and_consider,
        validation=lambda stats: stats,
        finish=choose_and_normalize,
        checkpoints=checkpoints,
    )
    last = train_supervised(trainee, loop, start=start, hooks=hooks)
    decision = candidates.decision()
    result = Result(
        stage="reward_model",
        identity=ArtifactId(kind="reward-model", name=REWARD_MODEL, version=decision.chosen),
        made_from=given,
        headline=only(
            last, "reward_model/val_accuracy", "reward_model/val_accuracy_clear", "reward_model/score_ceiling"
        ),
        decision=decision,
    )
    return export(ctx, workers.critic, result)


def ppo_stage(ctx: Context, *, policy: Path, reward: Path) -> Path:
    """PPO from the policy, against the reward model."""
    given = made_from(ctx, {"policy": policy, "reward_model": reward})
    done = earlier_result(ctx, "ppo", POLICY, given)
    if done is not None:
        return done
    config, team, workers = ctx.config, ctx.opened.team, ctx.opened.team.workers
    require_prompts(ctx)
    open_models(ctx, policy=policy, reward=reward)
    ppo_team = ActorPpoTeam(
        team,
        stage_settings.ppo_team_settings(
            config,
            has_demonstrations=ctx.opened.rows.has_demonstrations,
            retokenize=open_reward_text(ctx, reward),
        ),
    )
    loop = stage_settings.ppo_settings(config)
    checkpoints = ctx.checkpoints("ppo", every=config.checkpoint.every, parts=("policy", "critic"))
    latest = checkpoints.store.latest()
    ctx.display.stage("ppo", total=loop.num_iterations, done=0 if latest is None else latest.step)

    # the policy as it starts is what every evaluation compares with, on a resume too
    team.sync(version=0)
    before = ppo_team.evaluate(0)
    state = PpoState(step=0, kl_coef=config.algorithm.kl_coef, learning_rate_share=1.0)
    ctx.go_back("ppo", -1 if latest is None else latest.step)
    known, record = reward_model_facts(reward), ctx.recorder("ppo", given)
    if latest is None or not ctx.records.has("ppo", 0):
        record(0, before | known)
    if latest is not None:
        state = continue_from(ctx, latest)
    hooks = PpoHooks(
        watch=ppo_team,
        record=lambda step, stats: record(step, stats | known),
        examine=lambda state, stats: ctx.monitor.examine(
            state, stats | known, checkpoints=checkpoints.store.steps(), tracker=ctx.tracker
        ),
        rollback=lambda step: roll_back(ctx, checkpoints, step=step),
        checkpoints=checkpoints,
    )
    state, reason = train_ppo(ppo_team, loop, state, hooks)
    ctx.display.message(f"ppo ended after {state.step} iterations: {reason}")
    rows = [row for row in ctx.records.rows() if row["stage"] == "ppo"]
    metric = "eval/gold_score" if "eval/gold_score" in rows[-1] else "eval/win_rate"
    result = Result(
        stage="ppo",
        identity=ArtifactId(kind="policy", name=POLICY, version=state.step),
        made_from=given,
        headline={name: rows[-1][name] for name in HEADLINE if name in rows[-1]},
        decision=last_step(rows, metric=metric, sign=1),
    )
    return export(ctx, workers.policy, result)


def continue_from(ctx: Context, checkpoint: Checkpoint) -> PpoState:
    """Learners and generators as the checkpoint has them."""
    if not ctx.records.has("ppo", checkpoint.step):
        ctx.display.message(f"warning: metrics.jsonl has lost rows before iteration {checkpoint.step}")
    load(ctx, checkpoint.path, roles=("policy", "critic"))
    state = PpoState(**{field.name: checkpoint.state[field.name] for field in fields(PpoState)})
    ctx.opened.team.sync(version=state.step)
    return state


def require_prompts(ctx: Context) -> None:
    """ConfigError where a batch would hold a prompt twice."""
    found, wanted = ctx.opened.rows.prompts, ctx.config.algorithm.batch_size
    if found < wanted:
        raise ConfigError(
            f"algorithm.batch_size={wanted}: there are {found} training prompts (data.held_out_share are held out); "
            f"accepted are more prompts or a batch of at most {found}"
        )


def open_models(ctx: Context, *, policy: Path, reward: Path) -> None:
    """All four models of PPO, side by side."""
    runtime, workers = ctx.opened.team.runtime, ctx.opened.team.workers
    runtime.at("start of ppo")
    device = ctx.config.learner.device
    from_reward = ctx.config.algorithm.critic_init == "reward_model"
    critic, start = (reward, HeadStart.STORED) if from_reward else (policy, HeadStart.ZERO)
    head = SCORE_HEAD if ctx.config.reward.path is None else ctx.config.reward.head
    scalar = ScalarStart(start=start, head=head, seed=ctx.config.seed)
    ctx.display.message(f"critic: a copy of {critic}, its head {'as stored' if from_reward else 'new, all 0'}")
    opening = [
        runtime.call(workers.policy, LearnerWorker.open_policy, policy, stage_settings.POLICY_METRICS),
        runtime.call(workers.critic, LearnerWorker.open_scalar, critic, scalar, stage_settings.CRITIC_METRICS),
        runtime.call(workers.reward, RewardWorker.open, reward, head, device),
    ]
    if ctx.config.algorithm.reference:
        opening.append(runtime.call(workers.reference, ReferenceWorker.open, policy, device))
    runtime.gather(opening)


def resume_supervised(ctx: Context, stage: str, checkpoints: Checkpoints, *, role: str) -> int:
    """Load the stage's last checkpoint, where there is one; returns the step to go on from."""
    latest = checkpoints.store.latest()
    if latest is None:
        ctx.go_back(stage, -1)
        return 0
    load(ctx, latest.path, roles=(role,))
    ctx.go_back(stage, latest.step)
    return latest.step


def roll_back(ctx: Context, checkpoints: Checkpoints, *, step: int) -> None:
    """Learners, generators and records as they were at this step."""
    load(ctx, checkpoints.store.at(step).path, roles=("policy", "critic"))
    ctx.opened.team.sync(version=step)
    ctx.go_back("ppo", step)


def load(ctx: Context, folder: Path, *, roles: tuple[str, ...]) -> None:
    """Give learners back what they saved."""
    runtime, workers = ctx.opened.team.runtime, ctx.opened.team.workers
    by_role = {worker.role: worker for worker in (workers.policy, workers.critic)}
    runtime.gather([runtime.call(by_role[role], LearnerWorker.load, learner_path(folder, role)) for role in roles])


def only(stats: Stats, *names: str) -> dict[str, float | None]:
    """The named values, where measured."""
    values = reduce_stats(stats)
    return {name: values[name] for name in names if name in values}
