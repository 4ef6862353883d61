"""What is measured while experience is made: one function a group of metric names (formulas: docs, metrics).

Legend: B answers. Per-answer metrics are means over all answers, answers without tokens included.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlhf_ray.algorithms.corrections import mismatch_kl
from rlhf_ray.algorithms.masking import masked_sum
from rlhf_ray.algorithms.padding import PaddedRollouts
from rlhf_ray.algorithms.statistics import histogram, pearson, quantiles
from rlhf_ray.algorithms.variety import distinct_n, repeated_ngram_share
from rlhf_ray.types import Completions, Last, Max, Mean, Rewards, Stats, Sum

NUM_BINS = 30


def objective_stats(padded: PaddedRollouts, *, scores: Tensor, non_score: Tensor) -> Stats:
    """scores [B] after the end-of-answer rule; non_score [B, T] the part of the rewards that is not the score."""
    count = float(len(scores))
    totals = {
        "objective/scores": scores.sum(),
        "objective/kl": masked_sum(padded.old_logprobs - padded.ref_logprobs, padded.mask),
        "objective/non_score_reward": non_score.sum(),
        "objective/rlhf_reward": scores.sum() + non_score.sum(),
        "objective/entropy": masked_sum(-padded.old_logprobs, padded.mask),
    }
    low, p05, p50, p95, high = quantiles(scores, (0.0, 0.05, 0.5, 0.95, 1.0))
    return {
        **{name: Mean(float(total), count) for name, total in totals.items()},
        "objective/scores_std": Last(float(scores.std(correction=0)) if len(scores) else None),
        "objective/scores_min": Last(low),
        "objective/scores_max": Last(high),
        "objective/scores_p05": Last(p05),
        "objective/scores_p50": Last(p50),
        "objective/scores_p95": Last(p95),
        "objective/scores_histogram": histogram(scores, even_edges(low, high)),
    }


def even_edges(low: float | None, high: float | None) -> list[float]:
    """Edges of equal bins from the lowest to the highest value."""
    if low is None or high is None or not (math.isfinite(high - low) and low < high):
        centre = low if low is not None and math.isfinite(low) else 0.0
        return [centre - 0.5, centre + 0.5]
    return [low + (high - low) * i / NUM_BINS for i in range(NUM_BINS + 1)]


def response_stats(completions: Completions, *, finished: Tensor) -> Stats:
    """Lengths, ends and variety of the answers; finished [B] True where the answer ended by itself."""
    lengths, count = completions.tokens.lengths, float(len(completions.tokens))
    num_finished = float(finished.sum())
    return {
        "val/num_eos_tokens": Sum(num_finished),
        "val/eos_rate": Mean(num_finished, count),
        "response/length_mean": Mean(float(lengths.sum()), count),
        "response/length_max": Max(float(lengths.max(initial=0))),
        "response/truncated_rate": Mean(count - num_finished, count),
        "response/distinct_1": Last(distinct_n(completions.tokens, n=1)),
        "response/distinct_2": Last(distinct_n(completions.tokens, n=2)),
        "response/repetition_4gram": repeated_ngram_share(completions.tokens, n=4),
    }


def reward_stats(rewards: Rewards, *, lengths: Tensor) -> Stats:
    """Correlation of score (before the end-of-answer rule) and length [B], and each named part."""
    parts: Stats = {
        f"reward/parts/{part.name}": Mean(float(part.values.sum()), float(len(part.values))) for part in rewards.parts
    }
    return {"reward/length_correlation": Last(pearson(torch.from_numpy(rewards.scores.copy()), lengths)), **parts}


def rollout_stats(padded: PaddedRollouts) -> Stats:
    """The generator's log-probs against the learner's, over tokens."""
    log_ratio = padded.old_logprobs - padded.rollout_logprobs
    num_tokens = float(padded.mask.sum())
    return {
        "rollout/kl_mismatch": Mean(float(mismatch_kl(log_ratio, padded.mask)) * num_tokens, num_tokens),
        "rollout/logprob_absdiff_max": Max(float(log_ratio.abs().max()) if num_tokens else 0.0),
    }
