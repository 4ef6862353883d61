"""What an evaluation on held-out prompts says.

Legend: P prompts, S answers to each, side by side; B = P * S rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.algorithms.variety import distinct_n, repeated_ngram_share
from rlhf_ray.tracking.intervals import paired_gain, win_rate
from rlhf_ray.tracking.preference_stats import pair_margins
from rlhf_ray.types import Completions, FinishReason, Last, Mean, Ragged, Rewards, Stats, Sum


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Answers of one policy with all their scores."""

    completions: Completions
    num_samples: int
    proxy: Rewards  # the reward model's
    gold: Rewards | None  # the independent scorer's, where there is one
    logprobs: Ragged
    ref_logprobs: Ragged

    @property
    def verdicts(self) -> NDArray[np.float64]:
        """What decides which of two answers is better: gold, or else the reward model. [B]"""
        return (self.gold or self.proxy).scores


def evaluation_stats(judged: Judged, baseline: Judged) -> Stats:
    """Scores, win rate against the baseline, agreement of the two scorers, KL and variety.

    Answers are paired by prompt and sampling seed. Preference accuracy: of two answers to one prompt that gold tells
    apart, does the reward model prefer the same?
    """
    answers = judged.completions
    kl = row_sums(judged.logprobs) - row_sums(judged.ref_logprobs)
    rate = win_rate(judged.verdicts.reshape(-1, judged.num_samples), baseline.verdicts.reshape(-1, judged.num_samples))
    stats: Stats = {
        "eval/proxy_score": _mean(judged.proxy.scores),
        "eval/win_rate": Last(rate.value),
        "eval/win_rate_low": Last(rate.low),
        "eval/win_rate_high": Last(rate.high),
        "eval/kl": _mean(kl),
        "eval/length_mean": _mean(answers.tokens.lengths),
        "eval/eos_rate": _mean(np.array([reason is FinishReason.STOP for reason in answers.finish_reasons])),
        "eval/num_prompts": Sum(len(answers.texts) // judged.num_samples),
        "eval/num_answers": Sum(len(answers.texts)),
        "eval/distinct_1": Last(distinct_n(answers.tokens, n=1)),
        "eval/distinct_2": Last(distinct_n(answers.tokens, n=2)),
        "eval/repetition_4gram": repeated_ngram_share(answers.tokens, n=4),
    }
    if judged.gold is not None:
        stats["eval/gold_score"] = _mean(judged.gold.scores)
        for part in judged.gold.parts:
            stats[f"eval/parts/{part.name}"] = _mean(part.values)
        _, margins = pair_margins(judged.gold.scores, judged.proxy.scores, group=judged.num_samples)
        stats["eval/preference_accuracy"] = _mean(margins > 0)
        stats["eval/num_pairs"] = Sum(len(margins))
    if judged.gold is not None and baseline.gold is not None:
        gain = paired_gain(
            judged.gold.scores.reshape(-1, judged.num_samples), baseline.gold.scores.reshape(-1, judged.num_samples)
        )
        stats["eval/gold_gain"] = Last(gain.value)
        stats["eval/gold_gain_low"] = Last(gain.low)
        stats["eval/gold_gain_high"] = Last(gain.high)
    return stats


def row_sums(values: Ragged) -> NDArray[np.float64]:
    """Sum of each row, [B]."""
    return np.array([row.sum(dtype=np.float64) for row in values.rows()])


def _mean(values: NDArray[np.generic]) -> Mean:
    return Mean(float(np.sum(values, dtype=np.float64)), len(values))
