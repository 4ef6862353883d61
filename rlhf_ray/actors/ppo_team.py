"""The worker team of the PPO loop: see loops/team.py."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.frozen_workers import ReferenceWorker, RewardWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.team import Team, learner_path
from rlhf_ray.algorithms.experience import ExperienceSettings
from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.learner.base import Update
from rlhf_ray.types import (
    Completions,
    ExperienceRefs,
    Last,
    Ragged,
    Ref,
    Rewards,
    Rollouts,
    Stats,
    Sum,
    UpdateResult,
    merge_stats,
)


@dataclass(frozen=True, kw_only=True)
class PpoTeamSettings:
    """What the team itself needs to know."""

    batch_size: int
    experience: ExperienceSettings  # its kl_coef is replaced by the one in force
    has_reference: bool
    critic_is_reward_model: bool
    retokenize: bool  # the reward model has another tokenizer than the policy
    has_demonstrations: bool  # then held-out perplexity is measured
    evaluation_prompts: int
    evaluation_samples: int


class ActorPpoTeam:
    """Implements PpoTeam and PpoWatch of loops/team.py."""

    def __init__(self, team: Team, settings: PpoTeamSettings) -> None:
        self._team = team
        self._settings = settings
        self._call = team.runtime.call
        self._workers = team.workers

    def generate(self, step: int) -> Ref[Completions]:
        """See PpoTeam."""
        self._team.runtime.at(f"ppo iteration {step + 1}")
        num_samples = self._team.sampling.num_samples
        requests = self._team.runtime.call_many(
            self._workers.data,
            DataWorker.requests,
            step,
            self._settings.batch_size,
            num_samples,
            num_results=len(self._workers.generators),
        )
        return self._team.answers(requests, num_samples=num_samples, version=step)

    def assess(self, completions: Ref[Completions]) -> Ref[Rollouts]:
        """See PpoTeam."""
        logprobs = self._call(self._workers.policy, LearnerWorker.logprobs, completions)
        reference = self._reference(completions)
        values = self._call(self._workers.critic, LearnerWorker.values, completions)
        rewards = self._rewards(completions)
        return self._call(self._workers.data, DataWorker.assemble, completions, logprobs, reference, values, rewards)

    def estimate(self, rollouts: Ref[Rollouts], *, step: int, kl_coef: float) -> tuple[ExperienceRefs, Stats]:
        """See PpoTeam."""
        experience, stats = self._estimate(rollouts, step=step, kl_coef=kl_coef)
        self._call(self._workers.data, DataWorker.record, step + 1, rollouts, experience.policy)
        return experience, self._team.runtime.gather([stats])[0]

    def update(self, experience: ExperienceRefs, policy: Update, critic: Update) -> Stats:
        """See PpoTeam."""
        results: list[UpdateResult] = self._team.runtime.gather(
            [
                self._train(self._workers.policy, experience.policy, policy),
                self._train(self._workers.critic, experience.critic, critic),
            ]
        )
        return merge_stats(result.stats for result in results) | progress_stats(*results, planned=policy)

    def sync(self, version: int) -> Stats:
        """See PpoTeam."""
        return self._team.sync(version)

    def evaluate(self, step: int) -> Stats:
        """See PpoWatch."""
        settings, gather, began_s = self._settings, self._team.runtime.gather, time.time()
        self._team.runtime.at(f"evaluation after ppo iteration {step}")
        requests = self._team.runtime.call_many(
            self._workers.data,
            DataWorker.held_out_requests,
            settings.evaluation_prompts,
            settings.evaluation_samples,
            num_results=len(self._workers.generators),
        )
        answers = self._team.answers(requests, num_samples=settings.evaluation_samples, version=step)
        logprobs = self._call(self._workers.policy, LearnerWorker.logprobs, answers)
        reference = self._reference(answers)
        rewards = self._rewards(answers)
        judged = self._call(
            self._workers.data,
            DataWorker.judge,
            answers,
            settings.evaluation_samples,
            logprobs,
            reference,
            rewards,
            step == 0,
        )
        stats: Stats = gather([judged])[0]
        if settings.has_demonstrations:
            stats |= self._perplexity()
        return stats | {"time/evaluate": Last(time.time() - began_s)}

    def self_check(self, step: int, *, kl_coef: float, policy: Update) -> Stats:
        """See PpoWatch."""
        rollouts = self.assess(self.generate(step))
        experience, estimated = self._estimate(rollouts, step=step, kl_coef=kl_coef)
        parts = [estimated, self._call(self._workers.policy, LearnerWorker.evaluate, experience.policy, policy.loss)]
        if self._settings.critic_is_reward_model:
            parts.append(self._call(self._workers.data, DataWorker.critic_gap, rollouts))
        return merge_stats(self._team.runtime.gather(parts))

    def save(self, folder: Path) -> None:
        """See PpoWatch."""
        self._team.runtime.gather(
            [
                self._call(worker, LearnerWorker.save, learner_path(folder, worker.role))
                for worker in (self._workers.policy, self._workers.critic)
            ]
        )

    def start_clock(self) -> None:
        """See PpoWatch."""
        self._team.start_clock()

    def timings(self) -> Stats:
        """See PpoWatch."""
        return self._team.timings()

    def _rewards(self, completions: Ref[Completions]) -> Ref[Rewards]:
        """The sampled ids themselves, or where the tokenizers differ their texts in the reward model's."""
        readable = completions
        if self._settings.retokenize:
            readable = self._call(self._workers.data, DataWorker.retokenize, completions)
        return self._call(self._workers.reward, RewardWorker.score, readable)

    def _reference(self, completions: Ref[Completions]) -> Ref[Ragged] | None:
        if not self._settings.has_reference:
            return None
        return self._call(self._workers.reference, ReferenceWorker.logprobs, completions)

    def _estimate(self, rollouts: Ref[Rollouts], *, step: int, kl_coef: float) -> tuple[ExperienceRefs, Ref[Stats]]:
        settings = dataclasses.replace(self._settings.experience, kl_coef=kl_coef)
        policy, critic, stats = self._team.runtime.call_many(
            self._workers.data, DataWorker.estimate, step, rollouts, settings, num_results=3
        )
        return ExperienceRefs(policy=policy, critic=critic), stats

    def _train(self, worker: Remote[LearnerWorker], batch: Ref[Any], update: Update) -> Ref[Any]:
        return self._call(worker, LearnerWorker.update, batch, update.plan, update.loss, update.stop)

    def _perplexity(self) -> Stats:
        """exp of the mean negative log-prob of held-out demonstrations' tokens."""
        held_out = HandedRows(self._team, RowSet.HELD_OUT_DEMONSTRATIONS)
        parts = held_out.through(self._workers.policy, LearnerWorker.evaluate, SftLoss())
        loss = merge_stats(parts)["sft/loss"].value
        return {"eval/perplexity": Last(None if loss is None else math.exp(min(loss, 700.0)))}


def progress_stats(policy: UpdateResult, critic: UpdateResult, *, planned: Update) -> Stats:
    """How much was trained, and whether the stop rule cut the policy's passes short."""
    passes = 1 + max(minibatch.epoch for minibatch in planned.plan)
    return {
        "policy/optimizer_steps": Sum(policy.optimizer_steps),
        "policy/epochs": Last(policy.epochs),
        "policy/stopped_early": Last(float(policy.epochs < passes)),
        "val/optimizer_steps": Sum(critic.optimizer_steps),
    }
