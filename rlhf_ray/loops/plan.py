"""Which rows each optimizer step trains on, in what order, at what learning rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlhf_ray.algorithms.schedules import ScheduleKind, learning_rate
from rlhf_ray.data.order import epoch_order, group_rows, stream_rows
from rlhf_ray.types import Minibatch


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A learning rate over the steps of a stage."""

    kind: ScheduleKind
    base: float
    num_steps: int
    warmup: int

    def at(self, step: int) -> float:
        """The learning rate of step 1..num_steps."""
        return learning_rate(self.kind, step=step, num_steps=self.num_steps, base=self.base, warmup=self.warmup)


def epochs_plan(
    num_rows: int, *, epochs: int, minibatches: int, learning_rate: float, seed: tuple[int, int]
) -> list[Minibatch]:
    """Every row once per epoch, in a fresh order each epoch, cut into equal minibatches.

    `seed` is (run seed, iteration), so that no two iterations share an order.
    """
    run_seed, iteration = seed
    plan = []
    for epoch in range(epochs):
        order = epoch_order(num_rows, seed=run_seed, epoch=iteration * epochs + epoch)
        plan += [
            Minibatch(rows=rows, learning_rate=learning_rate, epoch=epoch)
            for rows in np.array_split(order, minibatches)
        ]
    return plan


def stream_plan(
    num_rows: int, *, batch_size: int, schedule: Schedule, steps: range, seed: int, group: int
) -> list[Minibatch]:
    """Steps of an endless seeded stream over groups of `group` neighbouring rows; epochs follow on each other."""
    num_groups = num_rows // group
    stream = stream_rows(num_groups, seed=seed, start=steps.start * batch_size, count=len(steps) * batch_size)
    return [
        Minibatch(
            rows=group_rows(groups, group=group),
            learning_rate=schedule.at(step + 1),
            epoch=step * batch_size // num_groups,
        )
        for step, groups in zip(steps, stream.reshape(-1, batch_size), strict=True)
    ]
