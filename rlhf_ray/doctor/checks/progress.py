"""Over-optimisation and plateau: whether going on is still worth it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlhf_ray.algorithms.overoptimization import rl_gold_reward, rl_peak
from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.reward import SCORE
from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import before_and_after, noise
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Floats

_GOLD = "eval/gold_score"


@dataclass(frozen=True, kw_only=True)
class PeakFit:
    """R(d) = d (a - b ln d) + the start's gold score, fitted to the evaluations."""

    alpha: float
    beta: float
    distance: float  # of the peak, sqrt(nats)
    gain: float  # gold at the peak above the start's
    now: float  # distance of the last evaluation
    share: float  # of the variance that is explained

    @property
    def is_past(self) -> bool:
        """Whether the run has gone beyond the peak."""
        return self.now > self.distance


def fit_peak(case: Case, rule: Rule) -> PeakFit | None:
    """Least squares in a and b; None where the evaluations do not tell (too few, too close, a poor fit, no peak)."""
    gold, kl = case.get(_GOLD), case.get("eval/kl", "objective/kl")
    nats = kl.at(gold.steps)
    moved = np.nan_to_num(nats) > 1e-3
    if moved.sum() < rule["points"]:
        return None
    distance, gain = np.sqrt(nats[moved]), gold.values[moved] - gold.values[0]
    if distance.max() < rule["spread"] * distance.min():
        return None
    terms = np.stack([distance, -distance * np.log(distance)], axis=1)
    alpha, beta = (float(number) for number in np.linalg.lstsq(terms, gain, rcond=None)[0])
    fitted = np.array([rl_gold_reward(float(d), alpha=alpha, beta=beta) for d in distance])
    share = _explained(gain, fitted)
    if beta <= 0 or not -5 < alpha / beta < 8 or share < rule["fit"]:
        return None
    peak, best = rl_peak(alpha=alpha, beta=beta)
    return PeakFit(alpha=alpha, beta=beta, distance=peak, gain=best, now=float(distance[-1]), share=share)


def peak(case: Case, rule: Rule) -> Symptom | None:
    """The fitted peak is behind, and the gold score has fallen from its best by a share of its gain."""
    fit, gold = fit_peak(case, rule), case.get(_GOLD)
    if fit is None or not fit.is_past or fit.gain <= 0:
        return None
    best = int(np.argmax(gold.values))
    fallen = float(gold.values[best] - np.median(gold.values[-2:])) / max(float(np.ptp(gold.values)), 1e-12)
    if best == gold.size - 1 or fallen < rule["warning"]:
        return None
    onset = float(gold.steps[best + 1])
    return Symptom(
        onsets={Severity.CRITICAL if fallen >= rule["critical"] else Severity.WARNING: onset},
        until=None,
        summary=f"past its best: the fit has its peak at KL {fit.distance**2:.3g}, the run is at {fit.now**2:.3g}",
        evidence=(before_and_after(gold, _GOLD, onset, limit=None),),
    )


def peak_words(fit: PeakFit) -> str:
    """The fit in a sentence."""
    where = "past it" if fit.is_past else "before it"
    law = f"R(d) = d ({fit.alpha:.3g} - {fit.beta:.3g} ln d), d = sqrt(KL)"
    return (
        f"over-optimisation: {law}, explains {fit.share:.0%}; best gold gain {fit.gain:.3g} at KL "
        f"{fit.distance**2:.3g}; the last evaluation, at KL {fit.now**2:.3g}, is {where}"
    )


def plateau(case: Case, rule: Rule) -> Symptom | None:
    """The last third's score is that of the middle third, within noise; its KL is not."""
    score, kl = case.get(*SCORE), case.get("objective/kl", "loss/kl_avg")
    if score.size < rule["points"] or kl.size < rule["points"]:
        return None
    first, middle, last = (float(np.median(part)) for part in np.array_split(score.values, 3))
    margin = rule["noise"] * noise(score.values) * math.sqrt(2.0 / (score.size // 3))
    kl_middle, kl_last = (float(np.median(part)) for part in np.array_split(kl.values, 3)[1:])
    if last - middle > margin or last - first <= 0 or kl_last < rule["kl_growth"] * max(kl_middle, 0.1):
        return None
    onset = float(score.steps[2 * score.size // 3])
    metric = case.log.first_name(*SCORE)
    return Symptom(
        onsets={Severity.WATCH: onset},
        until=None,
        summary="the score has stopped rising while the KL goes on growing",
        evidence=(
            before_and_after(score, metric, onset, limit=None),
            before_and_after(kl, case.log.first_name("objective/kl", "loss/kl_avg"), onset, limit=None),
        ),
    )


def _explained(values: Floats, fitted: Floats) -> float:
    spread = float(np.sum((values - values.mean()) ** 2))
    return 1.0 - float(np.sum((values - fitted) ** 2)) / spread if spread > 0 else 0.0
