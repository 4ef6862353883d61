"""Supervised training of one learner: fine-tuning on demonstrations, and the reward model on preferences.

endless seeded stream of rows -> optimizer steps -> every few steps: record, validate, checkpoint

Rows stay where they are: a plan names them, and the trainee fetches what it trains on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlhf_ray.learner.base import Loss, Update
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.loops.plan import Schedule, stream_plan
from rlhf_ray.loops.team import Trainee
from rlhf_ray.types import Stats, merge_stats


@dataclass(frozen=True, kw_only=True)
class SupervisedSettings:
    """The numbers of the loop."""

    seed: int
    num_rows: int
    num_steps: int
    batch_size: int  # groups per step
    group: int  # neighbouring rows that belong together
    schedule: Schedule
    loss: Loss
    log_every: int
    steps_at_once: int  # optimizer steps whose rows are fetched together


@dataclass(frozen=True, kw_only=True)
class SupervisedHooks:
    """What the loop tells its surroundings."""

    record: Callable[[int, Stats], None]
    validation: Callable[[Stats], Stats]  # names the validation's stats
    finish: Callable[[], Stats]  # what is done to the model after its last step, before it is validated
    checkpoints: Checkpoints


def train_supervised(trainee: Trainee, settings: SupervisedSettings, *, start: int, hooks: SupervisedHooks) -> Stats:
    """Steps start..num_steps; returns the last record."""
    step, stats = start, hooks.validation(trainee.evaluate(settings.loss))
    if start == 0:
        hooks.record(step, stats)
    while step < settings.num_steps:
        end = min(next_stop(step, settings.log_every, hooks.checkpoints.every), settings.num_steps)
        stretches = cut(range(step, end), at_most=settings.steps_at_once)
        stats = merge_stats(trainee.update(update_of(settings, steps)) for steps in stretches)
        step = end
        last = step == settings.num_steps
        if last:
            stats |= hooks.finish()
        if last or hooks.checkpoints.due(step):
            stats |= hooks.validation(trainee.evaluate(settings.loss))
        hooks.record(step, stats)
        if last or hooks.checkpoints.due(step):
            hooks.checkpoints.write(step, save=trainee.save, state={"step": step})
    return stats


def update_of(settings: SupervisedSettings, steps: range) -> Update:
    """What is trained on in these steps."""
    plan = stream_plan(
        settings.num_rows,
        batch_size=settings.batch_size,
        schedule=settings.schedule,
        steps=steps,
        seed=settings.seed,
        group=settings.group,
    )
    return Update(plan=plan, loss=settings.loss, stop=None)


def cut(steps: range, *, at_most: int) -> Iterator[range]:
    """The same steps in stretches of at most so many."""
    return (steps[first : first + at_most] for first in range(0, len(steps), at_most))


def next_stop(step: int, *periods: int) -> int:
    """The first multiple of any period after `step`."""
    return min((step // period + 1) * period for period in periods)
