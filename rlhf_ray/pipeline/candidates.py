"""Which state of a model becomes the stage's result: the candidates, the choice, and the record of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.tracking.artifacts import Candidate, Decision, parse_decision
from rlhf_ray.tracking.values import reduce_stats
from rlhf_ray.types import Stats

ACCURACY, LOSS = "reward_model/val_accuracy", "reward_model/val_loss"
RULE = f"highest {ACCURACY}, then lowest {LOSS}, then latest"


def candidate(step: int, stats: Stats) -> Candidate:
    """A validated state of the reward model."""
    values = reduce_stats(stats)
    return Candidate(step=step, metrics={name: values.get(name) for name in (ACCURACY, LOSS)})


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """By RULE; what could not be measured is the worst."""

    def rank(one: Candidate) -> tuple[float, float, int]:
        accuracy, loss = one.metrics[ACCURACY], one.metrics[LOSS]
        return (
            float("-inf") if accuracy is None else accuracy,
            float("-inf") if loss is None else -loss,
            one.step,
        )

    return max(candidates, key=rank)


def last_step(rows: Sequence[Mapping[str, Any]], *, metric: str, sign: int) -> Decision | None:
    """The last state of a stage, among all that were validated. sign: 1 where high is good, -1 where low is."""
    validated = [row for row in rows if row.get(metric) is not None and row["step"] > 0]
    if not validated:
        return None
    best = max(validated, key=lambda row: (sign * row[metric], row["step"]))
    return Decision(
        rule=f"{'highest' if sign > 0 else 'lowest'} {metric}; taken is the last one",
        chosen=best["step"],
        candidates=tuple(Candidate(step=row["step"], metrics={metric: row[metric]}) for row in validated),
    )


class RewardModelCandidates:
    """Keeps the best state of the reward model while it trains, and goes back to it at the end."""

    def __init__(self, folder: Path, *, rows: Sequence[Mapping[str, Any]], save: Callable[[Path], None]) -> None:
        """`rows` are the stage's rows of metrics.jsonl so far."""
        self._store = CheckpointStore(folder, keep=1, parts=("critic",))
        self._file = folder / "decision.json"
        self._save = save
        self._candidates = [
            Candidate(step=row["step"], metrics={name: row.get(name) for name in (ACCURACY, LOSS)})
            for row in rows
            if ACCURACY in row and row["step"] > 0
        ]

    def consider(self, step: int, stats: Stats) -> None:
        """A state was validated: it is kept where it is the best so far."""
        self._candidates.append(candidate(step, stats))
        if best_of(self._candidates).step == step:
            folder = self._store.begin(step)
            self._save(folder)
            self._store.commit(step, state={"step": step})

    def decide(self, step: int, stats: Stats, *, load: Callable[[Path], None]) -> None:
        """The last state, at `step`, was validated: load the best one, where that is another, and record the choice."""
        last = candidate(step, stats)
        kept = self._store.latest()
        before = [one for one in self._candidates if kept is not None and one.step <= kept.step]
        best = best_of([*before, last])
        if kept is not None and best.step == kept.step:
            load(kept.path)
        else:
            best = last
        decision = Decision(rule=RULE, chosen=best.step, candidates=(*self._candidates, last))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(self._file, asdict(decision))

    def decision(self) -> Decision:
        """What was decided, by this process or by one before it."""
        decision = parse_decision(json.loads(self._file.read_text(encoding="utf-8")))
        assert decision is not None, "written by decide"
        return decision
