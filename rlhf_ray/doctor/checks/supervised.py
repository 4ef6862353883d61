"""Fine-tuning and the reward model: overfitting, chance, margins."""

from __future__ import annotations

import numpy as np

from rlhf_ray.doctor.checks.case import Case
from rlhf_ray.doctor.checks.limits import above, limits_of
from rlhf_ray.doctor.findings import Severity, Symptom
from rlhf_ray.doctor.robust import Limit, before_and_after
from rlhf_ray.doctor.rules import Rule
from rlhf_ray.doctor.runlog import Floats, Series

_VAL_LOSS, _VAL_ACCURACY = "reward_model/val_loss", "reward_model/val_accuracy"
_ACCURACY, _NORMALIZED = "reward_model/accuracy", "reward_model/score_std"
_FEW = 5  # training batches are small
_MARGINS = ("reward_model/val_margin_mean", "reward_model/margin_mean")


def near_chance(case: Case, rule: Rule) -> Symptom | None:
    """The last held-out accuracy after step 0; without one, the last training accuracies."""
    metric = case.log.first_name(_VAL_ACCURACY, _ACCURACY)
    series = case.get(metric)
    series = series.between(max(1.0, series.steps[0]), series.steps[-1])
    if _few_pairs(case, rule) or series.size < (1 if metric == _VAL_ACCURACY else _FEW):
        return None
    last = float(series.values[-1] if metric == _VAL_ACCURACY else np.median(series.values[-3:]))
    limit = next((rule[word] for word in ("critical", "warning") if last < rule[word]), None)
    if limit is None:
        return None
    severity = Severity.CRITICAL if limit == rule["critical"] else Severity.WARNING
    step = float(series.steps[-1])
    return Symptom(
        onsets={severity: step},
        until=None,
        summary=f"the reward model is right on {last:.0%} of the pairs: do not start PPO with it",
        evidence=(before_and_after(series, metric, step, limit=limit),),
    )


def reward_model_overfit(case: Case, rule: Rule) -> Symptom | None:
    """Held-out loss above its best so far, or held-out accuracy below it."""
    if _few_pairs(case, rule):
        return None
    loss = _before_scaling(case, _VAL_LOSS)
    warning = Limit(severity=Severity.WARNING, value=rule["loss"], persistence=int(rule["persistence"]))
    found = above(loss, _over_best(loss), (warning,), metric=_VAL_LOSS, summary="the held-out loss rises from its best")
    if found is not None:
        return found
    accuracy = case.get(_VAL_ACCURACY)
    fallen = np.maximum.accumulate(accuracy.values) - accuracy.values
    warning = Limit(severity=Severity.WARNING, value=rule["accuracy"], persistence=int(rule["persistence"]))
    summary = "the held-out accuracy falls from its best"
    return above(accuracy, fallen, (warning,), metric=_VAL_ACCURACY, summary=summary)


def accuracy_gap(case: Case, rule: Rule) -> Symptom | None:
    """Training accuracy minus held-out accuracy at the held-out points."""
    held_out = case.get(_VAL_ACCURACY)
    if _few_pairs(case, rule):
        return None
    gap = np.nan_to_num(case.get(_ACCURACY).at(held_out.steps) - held_out.values)
    summary = "training pairs are told apart far better than held-out ones"
    return above(held_out, gap, limits_of(rule), metric=_VAL_ACCURACY, summary=summary)


def margin_collapse(case: Case, rule: Rule) -> Symptom | None:
    """Margin as a share of its best."""
    metric = case.log.first_name(*_MARGINS)
    series = _before_scaling(case, metric)
    best = np.maximum.accumulate(series.values) if series.size else series.values
    share = np.where(best >= rule["least"], series.values / np.maximum(best, rule["least"]), 1.0)
    limit = Limit(severity=Severity.WARNING, value=-rule["warning"], persistence=int(rule["persistence"]))
    return above(series, -share, (limit,), metric=metric, summary="the margin between chosen and rejected collapses")


def sft_overfit(case: Case, rule: Rule) -> Symptom | None:
    """Held-out loss above its best so far."""
    series = case.get("sft/val_loss")
    summary = "the held-out loss rises from its best"
    return above(series, _over_best(series), limits_of(rule), metric="sft/val_loss", summary=summary)


def _few_pairs(case: Case, rule: Rule) -> bool:
    """Whether the held-out pairs are known to be too few to tell."""
    pairs = case.get("reward_model/num_val_pairs", "reward_model/num_pairs")
    return bool(pairs.size and pairs.values.max() < rule["pairs"])


def _over_best(series: Series) -> Floats:
    best = np.minimum.accumulate(series.values) if series.size else series.values
    return np.where(best > 0, series.values / np.where(best > 0, best, 1.0), 1.0)


def _before_scaling(case: Case, name: str) -> Series:
    """Without the records after the scores were scaled: losses and margins are in other units there."""
    series, scaled = case.get(name), case.get(_NORMALIZED)
    kept = series.steps < scaled.steps[0] if scaled.size else np.ones(series.size, dtype=np.bool_)
    return Series(steps=series.steps[kept], values=series.values[kept])
