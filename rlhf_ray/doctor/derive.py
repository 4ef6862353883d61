"""Metrics and settings that a log does not have but contains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from rlhf_ray.doctor.names import BY_HAND_ORIGIN
from rlhf_ray.doctor.runlog import Column, RunLog, Series, StageLog

_COLLAPSED = 0.2  # nats per token: below this, no answer's KL can be small
_BETA = "algorithm.kl_coef"
_CLEAR = 1e-6  # nats; a penalty on less tells nothing
_PER_TOKEN = 5.0  # a hand-written KL below this may be per token


def with_derived(log: RunLog) -> RunLog:
    """Add what other columns tell, and say so."""
    columns, notes = list(log.columns), list(log.notes)
    stages = []
    for stage in log.stages:
        told = stage if stage.stage != "ppo" else _with_kl_unit(stage, columns, notes)
        stages.append(told if stage.stage != "ppo" else _with_columns(told, columns))
    settings = settings_from(stages, log.settings)
    return replace(log, stages=tuple(stages), columns=tuple(columns), notes=tuple(notes), settings=settings)


def _with_kl_unit(stage: StageLog, columns: list[Column], notes: list[str]) -> StageLog:
    """A KL that a person named has no unit: with a collapsed entropy, a small one can only be per token."""
    by_hand = any(column.ours == "objective/kl" and column.origin == BY_HAND_ORIGIN for column in columns)
    kl, entropy = stage.get("objective/kl"), stage.get("policy/entropy_avg")
    if not by_hand or not kl.size or not entropy.size or stage.get("loss/kl_avg").size:
        return stage
    if np.median(entropy.values) > _COLLAPSED or kl.values.max() >= _PER_TOKEN:
        return stage
    notes.append(
        f"the KL ({kl.values.max():g}) is taken as nats per token: whole answers of a policy with an entropy of "
        f"{np.median(entropy.values):g} nats per token are further from any reference (else: --map THEIRS=objective/kl)"
    )
    renamed = [replace(c, ours="loss/kl_avg") if c.ours == "objective/kl" else c for c in columns]
    columns[:] = renamed
    kept = {name: series for name, series in stage.series.items() if name != "objective/kl"}
    return replace(stage, series={**kept, "loss/kl_avg": kl})


def _with_columns(stage: StageLog, columns: list[Column]) -> StageLog:
    derived = {}
    tokens, length = stage.get("loss/kl_avg"), stage.get("response/length_mean")
    if not stage.get("objective/kl").size and tokens.size and length.size:
        lengths = length.at(tokens.steps)
        known = np.isfinite(lengths)
        derived["objective/kl"] = (
            "loss/kl_avg x response/length_mean",
            Series(steps=tokens.steps[known], values=tokens.values[known] * lengths[known]),
        )
    if not stage.get("val/eos_rate").size:
        ended = _eos_rate(stage)
        if ended is not None:
            derived["val/eos_rate"] = ended
    columns += [Column(theirs=how, ours=name, origin="derived") for name, (how, _series) in derived.items()]
    return replace(stage, series={**stage.series, **{name: series for name, (_how, series) in derived.items()}})


def _eos_rate(stage: StageLog) -> tuple[str, Series] | None:
    truncated = stage.get("response/truncated_rate")
    if truncated.size:
        return "1 - response/truncated_rate", Series(steps=truncated.steps, values=1.0 - truncated.values)
    count, episodes = stage.get("val/num_eos_tokens"), stage.get("episode")
    if count.size < 2 or episodes.size < 2:
        return None
    answers = float(np.median(np.diff(episodes.values)))
    if answers <= 0 or count.values.max() > answers:
        return None
    return "val/num_eos_tokens / answers", Series(steps=count.steps, values=count.values / answers)


def settings_from(stages: Iterable[StageLog], given: Mapping[str, float]) -> dict[str, float]:
    """The settings by key: beta as the columns have it in force, then `given`, then what else columns tell."""
    told: dict[str, float] = {}
    in_force: dict[str, float] = {}
    for stage in stages:
        beta = stage.get("objective/kl_coef")
        if beta.size:
            in_force[_BETA] = float(beta.values[-1])
        elif _BETA not in given:
            told |= _beta_of_penalty(stage)
        told |= {f"{key}.learning_rate": float(stage.series[name].values.max()) for name, key in _rates(stage)}
    return told | dict(given) | in_force


def _beta_of_penalty(stage: StageLog) -> dict[str, float]:
    """From non_score_reward = -beta x KL."""
    penalty, kl = stage.get("objective/non_score_reward"), stage.get("objective/kl")
    nats = kl.at(penalty.steps)
    clear = np.abs(np.nan_to_num(nats)) > _CLEAR
    return {_BETA: float(f"{np.median(-penalty.values[clear] / nats[clear]):.3g}")} if clear.any() else {}


def _rates(stage: StageLog) -> Iterator[tuple[str, str]]:
    for name, key in (
        ("lr", "algorithm"),
        ("sft/learning_rate", "sft"),
        ("reward_model/learning_rate", "reward_model"),
    ):
        if stage.get(name).size:
            yield name, key
