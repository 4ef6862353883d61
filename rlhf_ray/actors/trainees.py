"""The two learners as the supervised loop sees them: see loops/team.py, Trainee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.team import Team, learner_path
from rlhf_ray.learner.base import Loss, Update
from rlhf_ray.types import Ref, Stats, TrainBatch, UpdateResult


class SftTrainee:
    """The policy's learner; validation is the loss."""

    def __init__(self, team: Team, worker: Remote[LearnerWorker]) -> None:
        self._team = team
        self._worker = worker

    def update(self, batch: Ref[TrainBatch[Any]], update: Update) -> Stats:
        """See Trainee."""
        call = self._team.runtime.call(self._worker, LearnerWorker.update, batch, update.plan, update.loss, update.stop)
        result: UpdateResult = self._team.runtime.gather([call])[0]
        return result.stats

    def evaluate(self, batch: Ref[TrainBatch[Any]], loss: Loss) -> Stats:
        """See Trainee."""
        stats: Stats = self._team.runtime.gather(
            [self._team.runtime.call(self._worker, LearnerWorker.evaluate, batch, loss)]
        )[0]
        return stats

    def save(self, folder: Path) -> None:
        """See Trainee."""
        path = learner_path(folder, self._worker.role)
        self._team.runtime.gather([self._team.runtime.call(self._worker, LearnerWorker.save, path)])


class RewardModelTrainee(SftTrainee):
    """The reward model's learner; validation is how well its scores order held-out answers."""

    def __init__(self, team: Team, worker: Remote[LearnerWorker], *, clear_gap: float) -> None:
        super().__init__(team, worker)
        self._clear_gap = clear_gap

    def evaluate(self, batch: Ref[TrainBatch[Any]], loss: Loss) -> Stats:  # noqa: ARG002  the scores say more
        """See Trainee."""
        scores = self._team.runtime.call(self._worker, LearnerWorker.scores, batch)
        call = self._team.runtime.call(
            self._team.workers.data, DataWorker.preference_stats, batch, scores, self._clear_gap
        )
        stats: Stats = self._team.runtime.gather([call])[0]
        return stats
