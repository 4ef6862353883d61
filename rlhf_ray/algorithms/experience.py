"""From rollouts to a batch that policy and critic can train on: the whole-batch step between generating and learning.

    scores -> end-of-answer rule -> reward per token -> (whiten) -> GAE -> whiten -> weights

Another estimator is another small file with the same ends: Rollouts in, Experience out, made of the same parts.
Legend: B rows, T response slots. Everything here is float64; batches go out in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlhf_ray.algorithms.aggregation import LossForm, aggregation_weights
from rlhf_ray.algorithms.corrections import RolloutCorrection, correction_weights
from rlhf_ray.algorithms.experience_stats import objective_stats, response_stats, reward_stats, rollout_stats
from rlhf_ray.algorithms.gae import gae
from rlhf_ray.algorithms.kl import KlEstimator, token_kl
from rlhf_ray.algorithms.masking import masked_whiten
from rlhf_ray.algorithms.padding import PaddedRollouts, pad_rollouts, unpad
from rlhf_ray.algorithms.shaping import MissingEos, ScoreSlot, apply_missing_eos, mask_to_score, shape_rewards
from rlhf_ray.algorithms.statistics import explained_variance
from rlhf_ray.types import (
    Experience,
    Last,
    PolicyTargets,
    Ragged,
    Rollouts,
    Stats,
    TrainBatch,
    ValueTargets,
    join,
)


class Truncated(StrEnum):
    """What an answer that was cut is worth after its last token."""

    TERMINAL = "terminal"  # 0
    BOOTSTRAP = "bootstrap"  # the critic's reading there


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceSettings:
    """The numbers and choices of this step."""

    kl_coef: float
    kl_in_loss: bool  # then rewards carry no KL
    kl_estimator: KlEstimator
    gamma: float
    lam: float
    score_slot: ScoreSlot
    missing_eos: MissingEos
    missing_eos_value: float
    truncated: Truncated
    whiten_rewards: bool
    whiten_advantages: bool
    loss_form: LossForm
    max_new_tokens: int  # the window; also the constant length of LossForm.TOKEN_SUM_NORM
    rollout_correction: RolloutCorrection | None


def make_experience(rollouts: Rollouts, *, settings: ExperienceSettings) -> Experience:
    """Rewards, advantages, weights, and what there is to know about the batch."""
    padded = pad_rollouts(rollouts, window=settings.max_new_tokens)
    scores = apply_missing_eos(
        padded.scores, padded.finished, rule=settings.missing_eos, value=settings.missing_eos_value
    )
    shaped = shape_rewards(
        token_kl(padded.old_logprobs, padded.ref_logprobs, estimator=settings.kl_estimator),
        scores,
        padded.mask,
        kl_coef=0.0 if settings.kl_in_loss else settings.kl_coef,
        score_slot=settings.score_slot,
    )
    estimate = estimate_advantages(padded, shaped.rewards, settings=settings)
    returns, values = estimate.returns[estimate.critic_mask], estimate.values[estimate.critic_mask]
    stats: Stats = {
        **objective_stats(padded, scores=scores, non_score=shaped.non_score),
        **response_stats(rollouts.completions, finished=padded.finished),
        **reward_stats(rollouts.rewards, lengths=padded.mask.sum(dim=1)),
        **rollout_stats(padded),
        "objective/kl_coef": Last(settings.kl_coef),
        "val/explained_variance": Last(explained_variance(values, returns)),
    }
    return Experience(
        policy=policy_batch(rollouts, padded, estimate.advantages, settings=settings),
        critic=critic_batch(rollouts, estimate, settings=settings),
        stats=stats,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What GAE made of rewards and values."""

    critic_mask: Tensor  # [B, T] the response and the score's slot, where that lies one past the answer
    values: Tensor  # [B, T]
    advantages: Tensor  # [B, T], 0 outside the response
    returns: Tensor  # [B, T], of the rewards as whitened and the advantages as not


def estimate_advantages(padded: PaddedRollouts, rewards: Tensor, *, settings: ExperienceSettings) -> Estimate:
    """Whiten, GAE, whiten. A slot past the answer has the critic's reading at the last token as its value."""
    critic_mask = mask_to_score(padded.mask, slot=settings.score_slot)
    values = torch.where(critic_mask & ~padded.mask, padded.end_values.unsqueeze(1), padded.values)
    if settings.whiten_rewards:
        rewards = masked_whiten(rewards, critic_mask, shift_mean=False)
    bootstrap = torch.zeros_like(padded.end_values)
    if settings.truncated is Truncated.BOOTSTRAP:
        bootstrap = torch.where(padded.finished, bootstrap, padded.end_values)
    advantages, returns = gae(rewards, values, critic_mask, gamma=settings.gamma, lam=settings.lam, bootstrap=bootstrap)
    if settings.whiten_advantages:
        advantages = masked_whiten(advantages, padded.mask, shift_mean=True)
    advantages = torch.where(padded.mask, advantages, torch.zeros_like(advantages))
    return Estimate(critic_mask=critic_mask, values=values, advantages=advantages, returns=returns)


def policy_batch(
    rollouts: Rollouts, padded: PaddedRollouts, advantages: Tensor, *, settings: ExperienceSettings
) -> TrainBatch[PolicyTargets[Ragged]]:
    """Aggregation weights times importance weights; the divisor does not know the latter."""
    mask = padded.mask
    weights, row_counts = aggregation_weights(mask, form=settings.loss_form, norm_length=settings.max_new_tokens)
    if settings.rollout_correction is not None:
        log_ratio = padded.old_logprobs - padded.rollout_logprobs
        weights = weights * correction_weights(log_ratio, mask, correction=settings.rollout_correction)
    completions = rollouts.completions
    return TrainBatch(
        sequences=join(completions.prompts.tokens, completions.tokens),
        targets=PolicyTargets(
            weights=unpad(weights, mask),
            old_logprobs=rollouts.logprobs,
            ref_logprobs=rollouts.ref_logprobs,
            advantages=unpad(advantages, mask),
        ),
        row_counts=row_counts.numpy(),
        rows_per_group=1,
    )


def critic_batch(
    rollouts: Rollouts, estimate: Estimate, *, settings: ExperienceSettings
) -> TrainBatch[ValueTargets[Ragged]]:
    """Value targets on the response, and on the score's slot where that lies one past the answer."""
    mask = estimate.critic_mask
    weights, row_counts = aggregation_weights(mask, form=settings.loss_form, norm_length=settings.max_new_tokens)
    completions = rollouts.completions
    num_slots = mask.sum(dim=1).numpy()
    return TrainBatch(
        sequences=join(completions.prompts.tokens, extended(completions.tokens, num_slots)),
        targets=ValueTargets(
            weights=unpad(weights, mask),
            old_values=unpad(estimate.values, mask),
            returns=unpad(estimate.returns, mask),
        ),
        row_counts=row_counts.numpy(),
        rows_per_group=1,
    )


def extended(responses: Ragged, num_slots: NDArray[np.int64]) -> Ragged:
    """Responses with as many tokens as slots, at most one more: the last token again.

    The added token only makes its slot a response slot. The value there is read at the token before it.
    """
    rows = [
        row if len(row) == slots else np.append(row, row[-1:])
        for row, slots in zip(responses.rows(), num_slots, strict=True)
    ]
    return Ragged.from_rows(rows, responses.values.dtype)
