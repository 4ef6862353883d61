"""The two learners as the supervised loop sees them: see loops/team.py, Trainee."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.team import Team, learner_path
from rlhf_ray.data.row_sets import over_named_rows
from rlhf_ray.learner.base import Loss, Update
from rlhf_ray.types import Stats, UpdateResult, merge_stats


class SftTrainee:
    """The policy's learner; validation is the loss."""

    def __init__(self, team: Team, worker: Remote[LearnerWorker], *, train: HandedRows, held_out: HandedRows) -> None:
        self._team = team
        self._worker = worker
        self._train = train
        self._held_out = held_out

    def update(self, update: Update) -> Stats:
        """See Trainee."""
        runtime = self._team.runtime
        rows, plan = over_named_rows(update.plan)
        call = runtime.call(self._worker, LearnerWorker.update, self._train.take(rows), plan, update.loss, update.stop)
        result: UpdateResult = runtime.gather([call])[0]
        return result.stats

    def evaluate(self, loss: Loss) -> Stats:
        """See Trainee."""
        return merge_stats(self._held_out.through(self._worker, LearnerWorker.evaluate, loss))

    def save(self, folder: Path) -> None:
        """See Trainee."""
        path = learner_path(folder, self._worker.role)
        self._team.runtime.gather([self._team.runtime.call(self._worker, LearnerWorker.save, path)])


class RewardModelTrainee(SftTrainee):
    """The reward model's learner; validation is how well its scores order held-out answers."""

    def __init__(
        self,
        team: Team,
        worker: Remote[LearnerWorker],
        *,
        train: HandedRows,
        held_out: HandedRows,
        clear_gap: float,
    ) -> None:
        super().__init__(team, worker, train=train, held_out=held_out)
        self._clear_gap = clear_gap

    def evaluate(self, loss: Loss) -> Stats:  # noqa: ARG002  the scores say more
        """See Trainee."""
        scores = self._held_out.scores(self._worker)
        call = self._team.runtime.call(self._team.workers.data, DataWorker.preference_stats, scores, self._clear_gap)
        stats: Stats = self._team.runtime.gather([call])[0]
        return stats
