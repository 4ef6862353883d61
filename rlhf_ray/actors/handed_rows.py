"""The rows of a supervised stage as the driver sees them: they lie with the data worker, which hands out a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.team import Team
from rlhf_ray.data.order import Rows
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.types import Ref, TrainBatch

R = TypeVar("R")


class HandedRows:
    """One row set. Rows go from the data worker to the worker that needs them, never through the driver."""

    def __init__(self, team: Team, name: RowSet) -> None:
        self._team = team
        self._name = name
        (self.size,) = team.runtime.gather([team.runtime.call(team.workers.data, DataWorker.row_set_size, name)])

    def take(self, rows: Rows) -> Ref[TrainBatch[Any]]:
        """These rows."""
        return self._team.runtime.call(self._team.workers.data, DataWorker.take_rows, self._name, rows)

    def through(self, worker: Remote[LearnerWorker], method: Callable[..., R], *args: object) -> list[R]:
        """What the worker makes of all rows, a piece after the other: the next one leaves when one is done."""
        runtime, results = self._team.runtime, list[R]()
        for rows in self.size.pieces():
            results += runtime.gather([runtime.call(worker, method, self.take(rows), *args)])
        return results

    def scores(self, worker: Remote[LearnerWorker]) -> NDArray[np.float64]:
        """The scalar model's score of every row."""
        parts = self.through(worker, LearnerWorker.scores)
        return np.concatenate([np.zeros(0), *(part.values.astype(np.float64) for part in parts)])
