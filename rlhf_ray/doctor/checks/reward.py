"""Reward hacking in its forms: what the score says against what nobody trained on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlhf_ray.doctor.checks.case import CEILING, Case
from rlhf_ray.doctor.checks.limits import above, limits_of, share_of_start, with_limit_from_start
from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import Limit, before_and_after, noise, start_level
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Flags, Floats, Series

SCORE = ("objective/scores", "eval/proxy_score", "objective/rlhf_reward")
HELD_OUT = ("eval/gold_score", "eval/win_rate")
_FAMILIES = ("eval/parts/", "reward/parts/")
_MANY = 8  # evaluations from which on their own noise can be told


def evaluation_falls(case: Case, rule: Rule) -> Symptom | None:
    """(best so far - held-out score) / gain so far, where the score has not fallen since that best.

    Both by medians of 3 where there are many evaluations: the best of many is high by chance.
    """
    held_out, score = case.get(*HELD_OUT), case.get(*SCORE)
    if held_out.size < 3:
        return None
    smooth = _median_of_3(held_out.values) if held_out.size >= _MANY else held_out.values
    best, since = _best_so_far(smooth)
    scale = np.maximum(best - smooth[0], 0.1 * np.abs(best))
    fallen = best - smooth
    nats = case.get("objective/kl", "eval/kl").at(held_out.steps)
    real = fallen > np.maximum(rule["noise"] * _uncertainty(case, held_out), rule["least"] * np.abs(best))
    real &= np.isnan(nats) | (nats >= rule["kl"])
    share = np.where(real & _still_up(*_smoothed(score), held_out.steps, since), fallen / np.maximum(scale, 1e-12), 0.0)
    metric = case.log.first_name(*HELD_OUT)
    found = above(
        held_out, share, limits_of(rule), metric=metric, summary=f"the score rises while the {_judged(case)} falls"
    )
    return _with_score(_dated(found, held_out, best), case)


def evaluation_flat(case: Case, rule: Rule) -> Symptom | None:
    """The score has risen clearly, no two neighbouring held-out scores are above the first by more than noise.

    A held-out score that rose and fell again is the matter of evaluation_falls.
    """
    held_out, score, kl = case.get(*HELD_OUT), case.get(*SCORE), case.get("objective/kl", "eval/kl")
    if held_out.size < max(3, rule["evaluations"]) or score.size < 6 or not kl.size or kl.values[-1] < rule["kl"]:
        return None
    third = score.size // 3
    risen = float(np.median(score.values[-third:]) - np.median(score.values[:third]))
    gained = float((0.5 * (held_out.values[:-1] + held_out.values[1:])).max() - held_out.values[0])
    uncertainty = max(_uncertainty(case, held_out), noise(held_out.values))
    if risen < rule["rise"] * max(noise(score.values), 1e-12) or gained > rule["noise"] * uncertainty:
        return None
    onset = float(held_out.steps[int(rule["evaluations"]) - 1])
    metric = case.log.first_name(*HELD_OUT)
    symptom = Symptom(
        onsets={Severity.WARNING: onset},
        until=None,
        summary=f"the score rises, the {_judged(case)} does not follow",
        evidence=(before_and_after(held_out, metric, onset, limit=None),),
    )
    return _with_score(symptom, case)


def part_falls(case: Case, rule: Rule) -> Symptom | None:
    """The part of a judgement that has lost most of its best, where the score has not fallen since."""
    score, found = _smoothed(case.get(*SCORE)), []
    for name in sorted(case.log.series):
        part = case.get(name)
        if not name.startswith(_FAMILIES) or part.size < 3:
            continue
        best, since = _best_so_far(part.values)
        counts = (best > 0) & _still_up(*score, part.steps, since)
        lost = -np.where(counts, part.values / np.where(best > 0, best, 1.0), 1.0)
        per_evaluation = name.startswith("eval/")
        limits = tuple(
            Limit(severity=limit.severity, value=-limit.value, persistence=limit.persistence * (2 - per_evaluation))
            for limit in limits_of(rule)
        )
        symptom = above(part, lost, limits, metric=name, summary=f"{name} falls while the score rises")
        found += [] if symptom is None else [symptom]
    return _with_score(max(found, key=lambda item: (item.severity, -item.first_step), default=None), case)


def above_ceiling(case: Case, rule: Rule) -> Symptom | None:
    """Mean score above the reward model's ceiling, with what the held-out score did since."""
    ceiling = case.get(CEILING)
    limit_value = case.ceiling if case.ceiling is not None else float(ceiling.values[-1])
    limit = Limit(severity=Severity.WARNING, value=limit_value, persistence=int(rule["persistence"]))
    series, held_out = case.get("objective/scores"), case.get(*HELD_OUT)
    summary = f"the mean score is above {limit_value:.3g}, which the reward model gives only its best held-out answers"
    found = above(series, series.values, (limit,), metric="objective/scores", summary=summary)
    if found is None or not held_out.size:
        return found
    shown = before_and_after(held_out, case.log.first_name(*HELD_OUT), found.first_step, limit=None)
    course = _course_since(held_out, found.first_step)
    return replace(found, summary=f"{summary}; the {_judged(case)} {course}", evidence=(*found.evidence, shown))


def length(case: Case, rule: Rule) -> Symptom | None:
    """Answers grow, and the score goes with their length: within a batch where that is logged, else over time."""
    lengths, score = case.get("response/length_mean"), case.get(*SCORE)
    if lengths.size < 3:
        return None
    growth = lengths.values / max(start_level(lengths, rule["baseline"]), 1e-12)
    within = case.get("reward/length_correlation")
    follows = within.at(lengths.steps) if within.size else np.full(lengths.size, _over_time(lengths, score))
    measure = np.where(np.nan_to_num(follows) > rule["correlation"], growth, 0.0)
    limit = Limit(severity=Severity.WARNING, value=rule["growth"], persistence=int(rule["persistence"]))
    summary = "answers grow and the score rises with their length"
    found = above(lengths, measure, (limit,), metric="response/length_mean", summary=summary)
    return _with_score(found, case)


def disagreement(case: Case, rule: Rule) -> Symptom | None:
    """Spread over an ensemble's scorers against its start."""
    series = case.get("reward/disagreement")
    found = above(
        series,
        share_of_start(series, rule),
        limits_of(rule),
        metric="reward/disagreement",
        summary="the scorers disagree more and more",
    )
    return with_limit_from_start(found, series, rule)


def preferences(case: Case, rule: Rule) -> Symptom | None:
    """Agreement of reward model and judge on the policy's own answers."""
    series, pairs = case.get("eval/preference_accuracy"), case.get("eval/num_pairs")
    if series.values[0] < rule["warning"] or (pairs.size and pairs.values[-1] < rule["pairs"]):
        return None
    limits = tuple(
        Limit(severity=limit.severity, value=-limit.value, persistence=limit.persistence) for limit in limits_of(rule)
    )
    return above(
        series,
        -series.values,
        limits,
        metric="eval/preference_accuracy",
        summary="the reward model no longer knows the better of the policy's answers",
        sign=-1.0,
    )


def _judged(case: Case) -> str:
    """What the held-out score is: where nobody else judges, a win rate is the reward model's own opinion."""
    return "held-out score" if case.log.first_name(*HELD_OUT) == HELD_OUT[0] else "win rate (no gold score is recorded)"


def _course_since(held_out: Series, step: float) -> str:
    """In words: the best and the last from a step on, against the best before it."""
    before, since = held_out.values[held_out.steps < step], held_out.values[held_out.steps >= step]
    if not len(before) or not len(since):
        return "was not measured since"
    best, last = float(since.max()), float(since[-1])
    if best <= before.max():
        return f"has not risen since ({before.max():.3g} before, {last:.3g} now)"
    return f"still rises ({last:.3g})" if last == best else f"rose on to {best:.3g}, and is {last:.3g} now"


def _best_so_far(values: Floats) -> tuple[Floats, Floats]:
    """The best up to each point, and the index of that best."""
    best = np.maximum.accumulate(values)
    return best, np.maximum.accumulate(np.where(values >= best, np.arange(len(values)), 0)).astype(np.float64)


def _smoothed(score: Series) -> tuple[Series, float]:
    """By medians of 3 where there are many points, and the noise of the points themselves."""
    smooth = _median_of_3(score.values) if score.size >= 2 * _MANY else score.values
    return Series(steps=score.steps, values=smooth), noise(score.values)


def _still_up(score: Series, slack: float, steps: Floats, since: Floats) -> Flags:
    """Where the smoothed score is not below what it was at the held-out metric's best, but for half its noise."""
    there = score.at(steps)
    return np.nan_to_num(there - there[since.astype(np.int64)], nan=-1.0) >= -0.5 * slack


def _dated(symptom: Symptom | None, held_out: Series, best: Floats) -> Symptom | None:
    """Medians lag: the fall begins after the last value that was as good as the best."""
    if symptom is None:
        return None
    place = int(held_out.steps.searchsorted(symptom.first_step))
    good = np.flatnonzero(held_out.values[:place] >= best[place])
    begin = float(held_out.steps[good[-1] + 1]) if len(good) else symptom.first_step
    onsets = {severity: begin if step == symptom.first_step else step for severity, step in symptom.onsets.items()}
    return replace(symptom, onsets=onsets)


def _median_of_3(values: Floats) -> Floats:
    """Of each point with the two before it."""
    padded = np.concatenate([values[:1], values[:1], values])
    smooth: Floats = np.sort(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)[1]
    return smooth


def _uncertainty(case: Case, held_out: Series) -> float:
    """Standard error of the held-out score: from its interval where logged, else from its steps if they are many."""
    low, high = case.get("eval/gold_gain_low"), case.get("eval/gold_gain_high")
    if low.size and low.size == high.size:
        return float(np.median(high.values - low.values)) / (2 * 1.96)
    return noise(held_out.values) if held_out.size >= _MANY else 0.0


def _over_time(lengths: Series, score: Series) -> float:
    scores = score.at(lengths.steps)
    known = np.isfinite(scores)
    if known.sum() < 3 or np.ptp(scores[known]) == 0 or np.ptp(lengths.values[known]) == 0:
        return 0.0
    return float(np.corrcoef(scores[known], lengths.values[known])[0, 1])


def _with_score(symptom: Symptom | None, case: Case) -> Symptom | None:
    if symptom is None:
        return None
    score, metric = case.get(*SCORE), case.log.first_name(*SCORE)
    shown = before_and_after(score, metric, symptom.first_step, limit=None)
    return replace(symptom, evidence=(*symptom.evidence, shown))
