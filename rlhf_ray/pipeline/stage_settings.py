"""From the configuration to what each stage of training takes. The workers' settings: worker_settings.py."""

from __future__ import annotations

from rlhf_ray.actors.ppo_team import PpoTeamSettings
from rlhf_ray.algorithms.aggregation import LossForm
from rlhf_ray.algorithms.corrections import CorrectionKind, RolloutCorrection
from rlhf_ray.algorithms.experience import ExperienceSettings, Truncated
from rlhf_ray.algorithms.kl import KlEstimator
from rlhf_ray.algorithms.losses import BradleyTerryLoss, PolicyLoss, SftLoss, ValueLoss
from rlhf_ray.algorithms.schedules import ScheduleKind
from rlhf_ray.algorithms.shaping import MissingEos, ScoreSlot
from rlhf_ray.config.algorithm import AlgorithmConfig
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.row_sets import RowSetSize
from rlhf_ray.learner.torch_learner import StepMetrics
from rlhf_ray.loops.plan import Schedule
from rlhf_ray.loops.ppo import PpoSettings
from rlhf_ray.loops.self_check import CheckLimits
from rlhf_ray.loops.supervised import SupervisedSettings
from rlhf_ray.types import StopRule

SFT_METRICS, REWARD_MODEL_METRICS = (
    StepMetrics(
        grad_norm=f"{stage}/grad_norm",
        learning_rate=f"{stage}/learning_rate",
        skipped_steps=f"{stage}/skipped_steps",
    )
    for stage in ("sft", "reward_model")
)
POLICY_METRICS = StepMetrics(grad_norm="policy/grad_norm", learning_rate="lr", skipped_steps="policy/skipped_steps")
CRITIC_METRICS = StepMetrics(grad_norm="val/grad_norm", learning_rate="val/lr", skipped_steps="val/skipped_steps")
EARLY_STOP_FACTOR = 1.5  # of target_approx_kl


def sft_settings(config: TrainConfig, size: RowSetSize) -> SupervisedSettings:
    """Supervised fine-tuning."""
    sft = config.sft
    schedule = Schedule(
        kind=ScheduleKind(sft.schedule),
        base=config.learning_rate if sft.learning_rate is None else sft.learning_rate,
        num_steps=sft.num_steps,
        warmup=sft.warmup_steps,
    )
    return SupervisedSettings(
        seed=config.seed,
        num_rows=size.num_rows,
        num_steps=sft.num_steps,
        batch_size=sft.batch_size,
        group=size.group,
        schedule=schedule,
        loss=SftLoss(),
        log_every=sft.log_every,
        steps_at_once=max(1, size.max_groups // sft.batch_size),
    )


def reward_model_settings(config: TrainConfig, size: RowSetSize) -> SupervisedSettings:
    """Reward-model training: whole passes over the groups."""
    stage = config.reward_model
    num_steps = max(1, size.num_groups * stage.epochs // stage.batch_size)
    schedule = Schedule(
        kind=ScheduleKind(stage.schedule),
        base=config.learning_rate if stage.learning_rate is None else stage.learning_rate,
        num_steps=num_steps,
        warmup=stage.warmup_steps,
    )
    return SupervisedSettings(
        seed=config.seed,
        num_rows=size.num_rows,
        num_steps=num_steps,
        batch_size=stage.batch_size,
        group=size.group,
        schedule=schedule,
        loss=BradleyTerryLoss(group_size=size.group),
        log_every=stage.log_every,
        steps_at_once=max(1, size.max_groups // stage.batch_size),
    )


def experience_settings(algorithm: AlgorithmConfig) -> ExperienceSettings:
    """From rollouts to advantages."""
    correction = None
    if algorithm.rollout_correction != "none":
        correction = RolloutCorrection(
            kind=CorrectionKind(algorithm.rollout_correction),
            low=algorithm.rollout_correction_low,
            high=algorithm.rollout_correction_high,
        )
    return ExperienceSettings(
        kl_coef=algorithm.kl_coef,
        kl_in_loss=algorithm.kl_placement == "loss",
        kl_estimator=KlEstimator(algorithm.kl_estimator),
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        score_slot=ScoreSlot(algorithm.score_slot),
        missing_eos=MissingEos(algorithm.missing_eos),
        missing_eos_value=algorithm.missing_eos_value,
        truncated=Truncated(algorithm.truncated),
        whiten_rewards=algorithm.whiten_rewards,
        whiten_advantages=algorithm.whiten_advantages,
        loss_form=LossForm(algorithm.loss_form),
        max_new_tokens=algorithm.max_new_tokens,
        rollout_correction=correction,
    )


def ppo_team_settings(config: TrainConfig, *, has_demonstrations: bool, retokenize: bool) -> PpoTeamSettings:
    """What the PPO team needs to know."""
    return PpoTeamSettings(
        batch_size=config.algorithm.batch_size,
        experience=experience_settings(config.algorithm),
        has_reference=config.algorithm.reference,
        critic_is_reward_model=config.algorithm.critic_init == "reward_model",
        retokenize=retokenize,
        has_demonstrations=has_demonstrations,
        evaluation_prompts=config.evaluation.num_prompts,
        evaluation_samples=config.evaluation.samples_per_prompt,
    )


def ppo_settings(config: TrainConfig) -> PpoSettings:
    """The PPO loop."""
    algorithm = config.algorithm
    policy_rate = config.learning_rate if algorithm.learning_rate is None else algorithm.learning_rate
    critic_rate = policy_rate if algorithm.critic_learning_rate is None else algorithm.critic_learning_rate
    policy_lr, critic_lr = (
        Schedule(
            kind=ScheduleKind(algorithm.schedule),
            base=base,
            num_steps=algorithm.num_iterations,
            warmup=algorithm.warmup_iterations,
        )
        for base in (policy_rate, critic_rate)
    )
    stop = None
    if algorithm.target_approx_kl is not None:
        stop = StopRule(metric="policy/approxkl_k3_avg", above=EARLY_STOP_FACTOR * algorithm.target_approx_kl)
    check = config.check
    limits = CheckLimits(ratio=check.ratio, kl=check.kl, logprob_gap=check.logprob_gap, critic_gap=check.critic_gap)
    return PpoSettings(
        seed=config.seed,
        num_iterations=algorithm.num_iterations,
        episodes=algorithm.batch_size * algorithm.samples_per_prompt,
        epochs=algorithm.epochs,
        minibatches=algorithm.minibatches,
        policy_lr=policy_lr,
        critic_lr=critic_lr,
        policy_loss=policy_loss(algorithm),
        critic_loss=ValueLoss(clip=algorithm.value_clip),
        stop=stop,
        kl_target=algorithm.kl_target,
        kl_horizon=algorithm.kl_horizon,
        evaluate_every=config.evaluation.every,
        limits=limits if check.enabled else None,
    )


def policy_loss(algorithm: AlgorithmConfig) -> PolicyLoss:
    """PPO's clipped loss."""
    return PolicyLoss(
        clip_low=algorithm.clip,
        clip_high=algorithm.clip if algorithm.clip_high is None else algorithm.clip_high,
        dual_clip=algorithm.dual_clip,
        entropy_coef=algorithm.entropy_coef,
        kl_coef=algorithm.kl_coef if algorithm.kl_placement == "loss" else 0.0,
        kl_estimator=KlEstimator(algorithm.kl_estimator),
    )
