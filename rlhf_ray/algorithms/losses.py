"""The loss terms a learner sums. Each loss is a record of numbers that is called with model outputs and targets.

Legend: N response tokens laid end to end, B rows. weights > 0 marks a trained token; every mean is over trained tokens.
The learner divides `loss_sum` by the whole optimizer step's row counts, so a loss never averages by itself: the result
does not depend on micro-batches, ranks or padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rlhf_ray.algorithms.kl import KlEstimator, exp_log_ratio, k3_from_log_ratio, token_kl
from rlhf_ray.algorithms.statistics import histogram, quantiles
from rlhf_ray.types import (
    Last,
    Max,
    Mean,
    PolicyOutputs,
    PolicyTargets,
    PreferenceTargets,
    SftTargets,
    Stats,
    ValueOutputs,
    ValueTargets,
)

RATIO_EDGES = tuple(2.0 ** (step / 20) for step in range(-20, 21))  # 1/2 .. 2, evenly spaced logarithms


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutput:
    """What one micro-batch adds to an optimizer step."""

    loss_sum: Tensor  # scalar, sum of weight * term; 0 with a gradient of 0 when nothing is trained
    stats: Stats
    ratios: Tensor | None = None  # [trained tokens], detached; `ratio_stats` wants those of a whole update


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """PPO's clipped surrogate with optional dual clip, entropy bonus and KL term.

    term = L - entropy_coef * H + kl_coef * KL, with L from `clipped_surrogate`. (Schulman et al. 2017; KL: kl.token_kl)
    """

    clip_low: float
    clip_high: float  # above clip_low: "clip higher" (DAPO)
    dual_clip: float | None  # > 1
    entropy_coef: float
    kl_coef: float  # KL in the loss; 0 where it is in the reward
    kl_estimator: KlEstimator

    def __call__(self, outputs: PolicyOutputs[Tensor], targets: PolicyTargets[Tensor]) -> LossOutput:
        trained = targets.weights > 0
        logprobs, entropy = outputs.logprobs[trained], outputs.entropy[trained]
        advantages = targets.advantages[trained]
        log_ratio = logprobs - targets.old_logprobs[trained]
        ratio = exp_log_ratio(log_ratio)
        surrogate, binds = clipped_surrogate(
            ratio, advantages, clip_low=self.clip_low, clip_high=self.clip_high, dual_clip=self.dual_clip
        )
        measured = {
            "loss/policy_avg": surrogate,
            "policy/approxkl_avg": log_ratio**2 / 2,
            "policy/approxkl_k3_avg": k3_from_log_ratio(log_ratio),
            "policy/clipfrac_avg": binds,
            "policy/clipfrac_low_avg": binds & (advantages < 0),
            "policy/clipfrac_high_avg": binds & (advantages > 0),
            "policy/entropy_avg": entropy,
            "val/ratio": ratio,
        }
        terms = surrogate
        if self.entropy_coef:
            terms = terms - self.entropy_coef * entropy
        if self.kl_coef:
            kl = token_kl(logprobs, targets.ref_logprobs[trained], estimator=self.kl_estimator)
            measured["loss/kl_avg"] = kl
            terms = terms + self.kl_coef * kl
        loss_sum = (targets.weights[trained] * terms).sum()
        stats = _means(measured)
        if ratio.numel():
            stats["policy/ratio_max"] = Max(float(ratio.detach().max()))
        return LossOutput(loss_sum=loss_sum, stats=stats, ratios=ratio.detach())


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float, dual_clip: float | None
) -> tuple[Tensor, Tensor]:
    """L = max(-r A, -clip(r, 1 - low, 1 + high) A) and whether the clip binds, both [N].

    With dual clip c, L = min(L, -c A) where A < 0: no gradient beyond r = c. (Schulman 2017; Ye 2019)
    """
    plain = -ratio * advantages
    clipped = -ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    surrogate = torch.maximum(plain, clipped)
    if dual_clip is not None:
        surrogate = torch.where(advantages < 0, torch.minimum(surrogate, -dual_clip * advantages), surrogate)
    return surrogate, clipped > plain


def ratio_stats(ratios: Tensor) -> Stats:
    """Quantiles, unbiased variance and distribution of the ratios of all trained tokens of an update."""
    p05, p50, p95 = quantiles(ratios, (0.05, 0.5, 0.95))
    variance = float(ratios.double().var()) if ratios.numel() > 1 else None
    return {
        "policy/ratio_p05": Last(p05),
        "policy/ratio_p50": Last(p50),
        "policy/ratio_p95": Last(p95),
        "val/ratio_var": Last(variance),
        "policy/ratio_histogram": histogram(ratios, RATIO_EDGES),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLoss:
    """term = 0.5 * max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2); without a clip 0.5 * (V - R)^2."""

    clip: float | None

    def __call__(self, outputs: ValueOutputs[Tensor], targets: ValueTargets[Tensor]) -> LossOutput:
        trained = targets.weights > 0
        values, old, returns = outputs.values[trained], targets.old_values[trained], targets.returns[trained]
        squares = (values - returns) ** 2
        binds = torch.zeros_like(squares, dtype=torch.bool)
        if self.clip is not None:
            held = (old + (values - old).clamp(-self.clip, self.clip) - returns) ** 2
            binds = held > squares
            squares = torch.maximum(squares, held)
        terms = squares / 2
        return LossOutput(
            loss_sum=(targets.weights[trained] * terms).sum(),
            stats=_means({"loss/value_avg": terms, "val/clipfrac_avg": binds}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SftLoss:
    """term = -log p(token)."""

    def __call__(self, outputs: PolicyOutputs[Tensor], targets: SftTargets[Tensor]) -> LossOutput:
        trained = targets.weights > 0
        terms = -outputs.logprobs[trained]
        return LossOutput(
            loss_sum=(targets.weights[trained] * terms).sum(),
            stats=_means({"sft/loss": terms}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerryLoss:
    """One term a comparison: -log sigmoid(score_i - score_j) for labels[i] > labels[j] within a group of neighbours.

    A tie of scores is not accurate. (Bradley and Terry 1952; all pairs of a group: Ouyang et al. 2022)
    """

    group_size: int  # the batch's rows_per_group

    def __call__(self, outputs: ValueOutputs[Tensor], targets: PreferenceTargets[Tensor]) -> LossOutput:
        scores = outputs.scores.reshape(-1, self.group_size)
        labels = targets.labels.reshape(-1, self.group_size)
        chosen_over = labels.unsqueeze(2) > labels.unsqueeze(1)  # [groups, i, j]
        margins = (scores.unsqueeze(2) - scores.unsqueeze(1))[chosen_over]
        terms = -logsigmoid(margins)
        measured = {
            "reward_model/loss": terms,
            "reward_model/accuracy": margins > 0,
            "reward_model/margin_mean": margins,
        }
        return LossOutput(loss_sum=terms.sum(), stats=_means(measured))


def _means(measured: dict[str, Tensor]) -> Stats:
    """Means over the same tokens under their names; one transfer from the device for all."""
    totals = torch.stack([values.detach().sum(dtype=torch.float64) for values in measured.values()]).tolist()
    counts = [values.numel() for values in measured.values()]
    return {name: Mean(total, count) for name, total, count in zip(measured, totals, counts, strict=True)}
