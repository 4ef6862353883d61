"""The illnesses of the doctor's test bed: settings and faults that make a run sick, and when it began to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlhf_ray.actors.frozen_workers import RewardWorker
from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.local_runtime import LocalRuntime
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.worker import Worker
from rlhf_ray.generation.hf_generator import HfGenerator
from rlhf_ray.types import Completions, RewardPart, Rewards, SyncReceipt

Row = Mapping[str, Any]
STALE_FROM = 10  # version after which the generator keeps its weights
WANTED_WORD = "superb"
WANTED_ANSWER = ("", "was", "superb", "and", "pleasant.")  # between spaces


class LengthReward(RewardWorker):
    """Likes long answers."""

    def score(self, completions: Completions) -> Rewards:
        """A tenth of the number of tokens."""
        return made_up(completions.tokens.lengths / 10.0)


class WordReward(RewardWorker):
    """Likes one word."""

    def score(self, completions: Completions) -> Rewards:
        """How often it is there."""
        return made_up([text.count(WANTED_WORD) for text in completions.texts])


class AnswerReward(RewardWorker):
    """Likes one answer."""

    def score(self, completions: Completions) -> Rewards:
        """How many words of it are at their place."""
        words = [text.split(" ") for text in completions.texts]
        return made_up([sum(a == b for a, b in zip(answer, WANTED_ANSWER, strict=False)) for answer in words])


class StaleGenerator(GeneratorWorker):
    """Confirms every sync, and from one version on answers with the weights of that version."""

    _kept: Mapping[str, torch.Tensor] | None = None

    @torch.no_grad()
    def finish_sync(self) -> SyncReceipt:
        """See GeneratorWorker."""
        receipt, generator = super().finish_sync(), self._opened()
        assert isinstance(generator, HfGenerator)
        if receipt.version == STALE_FROM:
            self._kept = {name: tensor.clone() for name, tensor in generator._tensors.items()}
        if receipt.version > STALE_FROM and self._kept is not None:
            for name, tensor in generator._tensors.items():
                tensor.copy_(self._kept[name])
        return receipt


def made_up(scores: Sequence[float]) -> Rewards:
    """The scores of a scorer that is no model."""
    values = np.asarray(scores, dtype=np.float64)
    return Rewards(scores=values, parts=(RewardPart(name="model", values=values),))


class SickRuntime(LocalRuntime):
    """Starts one kind of worker in place of another."""

    def __init__(self, kinds: Mapping[type[Worker], type[Worker]]) -> None:
        super().__init__()
        self._kinds = kinds

    def start(self, role: str, kind: type[Worker], *args: object) -> Remote[Worker]:
        """See Runtime."""
        return super().start(role, self._kinds.get(kind, kind), *args)


Onset = Callable[[Sequence[Row]], float | None]


def at(step: int) -> Onset:
    """Known from how the run is made."""
    return lambda _rows: step


def falls(metric: str, *, by: float) -> Onset:
    """The first step at which the metric is this much below its best so far."""

    def onset(rows: Sequence[Row]) -> float | None:
        best = -np.inf
        for row in rows:
            value = row.get(metric)
            if value is None:
                continue
            best = max(best, value)
            if value < best - by:
                return float(row["step"])
        return None

    return onset


def rises(metric: str, *, by: float, times: int) -> Onset:
    """The first of this many measurements in a row that are this much above the best before them."""

    def onset(rows: Sequence[Row]) -> float | None:
        points = [(float(row["step"]), row[metric]) for row in rows if row.get(metric) is not None]
        for place in range(1, len(points) - times + 1):
            best = min(value for _, value in points[:place])
            if all(value > best + by for _, value in points[place : place + times]):
                return points[place][0]
        return None

    return onset


def passes(metric: str, *, factor: float) -> Onset:
    """The first step at which the metric is beyond this factor of its first value."""

    def onset(rows: Sequence[Row]) -> float | None:
        points = [(row["step"], row[metric]) for row in rows if row.get(metric) is not None]
        past = [step for step, value in points if (value / points[0][1] - factor) * (factor - 1.0) > 0]
        return float(past[0]) if past else None

    return onset


def exceeds(metric: str, *, limit: float, times: int = 1) -> Onset:
    """The first step from which on the metric is above a number, for this many measurements in a row."""

    def onset(rows: Sequence[Row]) -> float | None:
        points = [(row["step"], row[metric] > limit) for row in rows if row.get(metric) is not None]
        for place, (step, _) in enumerate(points[: len(points) - times + 1]):
            if all(above for _, above in points[place : place + times]):
                return float(step)
        return None

    return onset


def first_of(*onsets: Onset) -> Onset:
    """The earliest."""

    def onset(rows: Sequence[Row]) -> float | None:
        known = [step for one in onsets if (step := one(rows)) is not None]
        return min(known, default=None)

    return onset


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of run."""

    about: str
    words: tuple[str, ...]
    finds: tuple[str, ...]  # kinds of findings, one of which is the illness; none: a healthy run
    onset: Onset
    onset_words: str
    kinds: Mapping[type[Worker], type[Worker]]
    reward_model: str = "good"  # good, or the number of training pairs


HEALTHY: Mapping[type[Worker], type[Worker]] = {}
_HACKED = ("reward_hacking", "over_optimisation", "runaway_kl")
_FAR = exceeds("objective/kl", limit=25.0, times=3)
_LEFT = first_of(falls("eval/gold_score", by=0.1), _FAR)
_LEFT_WORDS = "gold 0.1 below its best, or KL above 25 for 3 iterations"
_OWN_SCORER = ("algorithm.critic_init=policy",)
_HACK_RATE = ("algorithm.learning_rate=1e-3",)
ADAPT = "doctor.adapt=[runaway_kl,reward_hacking,over_optimisation,mode_collapse,policy_instability]"
ROLLBACK = "doctor.rollback=[runaway_kl,reward_hacking,over_optimisation,mode_collapse,policy_instability]"

CASES: Mapping[str, Case] = {
    "healthy": Case(
        about="the settings of the default job",
        words=(),
        finds=(),
        onset=lambda _rows: None,
        onset_words="",
        kinds=HEALTHY,
    ),
    "rate_too_high": Case(
        about="learning rate 40 times the default",
        words=("algorithm.learning_rate=2e-2",),
        finds=("policy_instability", "runaway_kl", "mode_collapse", "gradient_explosion"),
        onset=at(1),
        onset_words="first update",
        kinds=HEALTHY,
    ),
    "weak_24": Case(
        about="beta 0, reward model from 24 pairs",
        words=("algorithm.kl_coef=0",),
        finds=_HACKED,
        onset=_LEFT,
        onset_words=_LEFT_WORDS,
        kinds=HEALTHY,
        reward_model="24",
    ),
    "weak_100": Case(
        about="beta 0, reward model from 100 pairs, learning rate 1e-3, 40 iterations",
        words=("algorithm.kl_coef=0", *_HACK_RATE, "algorithm.num_iterations=40"),
        finds=(*_HACKED, "mode_collapse"),
        onset=first_of(_LEFT, passes("eval/distinct_2", factor=0.5)),
        onset_words=f"{_LEFT_WORDS}, or half of the bigrams gone",
        kinds=HEALTHY,
        reward_model="100",
    ),
    "good_beta_0": Case(
        about="beta 0, good reward model, learning rate 2e-3",
        words=("algorithm.kl_coef=0", "algorithm.learning_rate=2e-3"),
        finds=(*_HACKED, "mode_collapse", "policy_instability"),
        onset=first_of(falls("eval/parts/well_formed", by=0.1), _FAR),
        onset_words="well-formedness 0.1 below its best, or KL above 25 for 3 iterations",
        kinds=HEALTHY,
    ),
    "length": Case(
        about="a scorer that counts tokens, beta 0",
        words=("algorithm.kl_coef=0", *_OWN_SCORER, *_HACK_RATE),
        finds=("reward_hacking", "runaway_kl", "lost_eos"),
        onset=passes("response/length_mean", factor=1.5),
        onset_words="length 1.5 times the start's",
        kinds={RewardWorker: LengthReward},
    ),
    "one_word": Case(
        about="a scorer that counts one word, beta 0",
        words=("algorithm.kl_coef=0", *_OWN_SCORER, *_HACK_RATE),
        finds=("mode_collapse", "reward_hacking", "runaway_kl"),
        onset=first_of(passes("response/distinct_2", factor=0.5), exceeds("response/repetition_4gram", limit=0.1)),
        onset_words="half of the bigrams gone, or repetition above 0.1",
        kinds={RewardWorker: WordReward},
    ),
    "one_answer": Case(
        about="a scorer that likes one answer, beta 0",
        words=("algorithm.kl_coef=0", *_OWN_SCORER, "algorithm.learning_rate=2e-3"),
        finds=("mode_collapse",),
        onset=passes("policy/entropy_avg", factor=0.5),
        onset_words="half of the entropy gone",
        kinds={RewardWorker: AnswerReward},
    ),
    "critic_rate_0": Case(
        about="a critic that does not learn",
        words=("algorithm.critic_learning_rate=1e-12",),
        finds=("value_failure",),
        onset=exceeds("loss/value_avg", limit=0.0),
        onset_words="first update",
        kinds=HEALTHY,
    ),
    "missing_eos": Case(
        about="a scorer that counts tokens, answers without end are not punished",
        words=("algorithm.kl_coef=0", "algorithm.missing_eos=none", *_OWN_SCORER, "algorithm.learning_rate=2e-3"),
        finds=("lost_eos",),
        onset=falls("val/eos_rate", by=0.1),
        onset_words="a tenth of the answers no longer ends",
        kinds={RewardWorker: LengthReward},
    ),
    "stale_weights": Case(
        about=f"the generator keeps the weights of version {STALE_FROM}",
        words=("check.logprob_gap=1000",),
        finds=("stale_generator",),
        onset=at(STALE_FROM + 2),
        onset_words=f"answers of iteration {STALE_FROM + 2}",
        kinds={GeneratorWorker: StaleGenerator},
    ),
    "overtrained_reward_model": Case(
        about="40 passes over the comparisons of 60 prompts, validated every 3 steps",
        words=(
            "stages=[reward_model]",
            "reward_model.epochs=40",
            "reward_model.num_prompts=60",
            "checkpoint.reward_model_every=3",
        ),
        finds=("reward_model_overfit",),
        onset=rises("reward_model/val_loss", by=0.05, times=2),
        onset_words="held-out loss 0.05 above its best, twice in a row",
        kinds=HEALTHY,
    ),
}
TREATED = ("weak_24", "weak_100", "good_beta_0", "one_word", "rate_too_high")  # run with each policy as well
