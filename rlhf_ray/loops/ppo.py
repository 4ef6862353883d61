"""Proximal policy optimisation, in reading order. Formulas: docs/algorithm.md.

prompts -> generate -> [policy log-probs | reference log-probs | values | rewards] -> rewards and advantages
        -> epochs x minibatches: policy and critic -> weights to every generator -> adapt beta
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from rlhf_ray.algorithms.kl import adapted_kl_coef
from rlhf_ray.learner.base import Loss, Update
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.loops.plan import Schedule, epochs_plan
from rlhf_ray.loops.rates import rates
from rlhf_ray.loops.self_check import CheckLimits, check_identities
from rlhf_ray.loops.team import PpoTeam, PpoWatch
from rlhf_ray.types import Last, Mean, Stats, StopRule


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """The numbers of the loop."""

    seed: int
    num_iterations: int
    episodes: int  # answers per iteration
    epochs: int
    minibatches: int
    policy_lr: Schedule
    critic_lr: Schedule
    policy_loss: Loss
    critic_loss: Loss
    stop: StopRule | None
    kl_target: float | None  # nats per sequence; None: beta stays
    kl_horizon: int
    evaluate_every: int
    limits: CheckLimits | None  # None: no self check


@dataclass(frozen=True, kw_only=True)
class PpoState:
    """All that the driver remembers between iterations."""

    step: int  # updates done = version of the policy
    kl_coef: float
    learning_rate_share: float  # of the schedules


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How the run goes on after an iteration."""

    kl_coef: float
    learning_rate_share: float
    rollback_to: int | None  # the step of a checkpoint
    stop: str | None  # the reason that ends the run


@dataclass(frozen=True, kw_only=True)
class PpoHooks:
    """What the loop tells its surroundings, and what it asks them."""

    watch: PpoWatch
    record: Callable[[int, Stats], None]
    examine: Callable[[PpoState, Stats], Verdict]
    rollback: Callable[[int], None]  # learners and generators as they were at this step
    checkpoints: Checkpoints


def iteration(team: PpoTeam, settings: PpoSettings, state: PpoState) -> tuple[PpoState, Stats]:
    """One round: answer, judge, learn, hand the new weights to the generators."""
    step = state.step

    completions = team.generate(step)
    rollouts = team.assess(completions)
    experience, measured = team.estimate(rollouts, step=step, kl_coef=state.kl_coef)

    policy, critic = updates(settings, state)
    learned = team.update(experience, policy, critic)
    synced = team.sync(version=step + 1)

    kl_coef = state.kl_coef
    if settings.kl_target is not None:
        kl_coef = adapted_kl_coef(
            kl_coef,
            sequence_kl=mean_of(measured, "objective/kl"),
            target=settings.kl_target,
            horizon=settings.kl_horizon,
            num_episodes=settings.episodes,
        )
    return replace(state, step=step + 1, kl_coef=kl_coef), measured | learned | synced


def train_ppo(team: PpoTeam, settings: PpoSettings, state: PpoState, hooks: PpoHooks) -> tuple[PpoState, str]:
    """Iterate to the end, or until a verdict stops the run. The generators must hold version `state.step`."""
    if settings.limits:
        policy, _ = updates(settings, state)
        identities = hooks.watch.self_check(state.step, kl_coef=state.kl_coef, policy=policy)
        check_identities(identities, step=state.step, limits=settings.limits)
    while state.step < settings.num_iterations:
        hooks.watch.start_clock()
        state, stats = iteration(team, settings, state)
        stats |= rates(stats | hooks.watch.timings(), step=state.step, episodes=settings.episodes)
        last = state.step == settings.num_iterations
        evaluated = last or state.step % settings.evaluate_every == 0
        if evaluated:
            stats |= hooks.watch.evaluate(state.step)
        verdict = hooks.examine(state, stats)
        if verdict.stop and not evaluated:
            stats |= hooks.watch.evaluate(state.step)
        hooks.record(state.step, stats)
        state = replace(state, kl_coef=verdict.kl_coef, learning_rate_share=verdict.learning_rate_share)
        back = verdict.rollback_to
        if back is not None:
            hooks.rollback(back)
            state = replace(state, step=back)
        if back is not None or last or verdict.stop or hooks.checkpoints.due(state.step):
            hooks.checkpoints.write(state.step, save=hooks.watch.save, state=asdict(state))
        if verdict.stop:
            return state, verdict.stop
    return state, "all iterations done"


def updates(settings: PpoSettings, state: PpoState) -> tuple[Update, Update]:
    """How policy and critic train on the batch of this step: the same rows in the same order."""
    policy_plan, critic_plan = (
        epochs_plan(
            settings.episodes,
            epochs=settings.epochs,
            minibatches=settings.minibatches,
            learning_rate=schedule.at(state.step + 1) * state.learning_rate_share,
            seed=(settings.seed, state.step),
        )
        for schedule in (settings.policy_lr, settings.critic_lr)
    )
    policy = Update(plan=policy_plan, loss=settings.policy_loss, stop=settings.stop)
    critic = Update(plan=critic_plan, loss=settings.critic_loss, stop=None)
    return policy, critic


def mean_of(stats: Stats, name: str) -> float:
    """The value of a stat that must be there and defined."""
    stat = stats[name]
    assert isinstance(stat, Mean | Last)
    value = stat.value
    assert value is not None, name
    return value
