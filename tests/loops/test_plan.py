"""Which rows are trained on when: every row once an epoch, in a fresh order."""

import numpy as np
import pytest

from rlhf_ray.algorithms.schedules import ScheduleKind
from rlhf_ray.loops.plan import Schedule, epochs_plan, stream_plan


def schedule(kind: ScheduleKind = ScheduleKind.LINEAR, *, num_steps: int = 4, warmup: int = 0) -> Schedule:
    return Schedule(kind=kind, base=8.0, num_steps=num_steps, warmup=warmup)


def test_every_row_comes_once_an_epoch_in_a_fresh_order():
    plan = epochs_plan(12, epochs=3, minibatches=4, learning_rate=0.1, seed=(1, 0))
    assert [step.epoch for step in plan] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert {len(step.rows) for step in plan} == {3}
    assert {step.learning_rate for step in plan} == {0.1}
    epochs = [np.concatenate([step.rows for step in plan if step.epoch == epoch]) for epoch in range(3)]
    for order in epochs:
        assert sorted(order) == list(range(12))
    assert len({tuple(order) for order in epochs}) == 3


def test_iterations_have_orders_of_their_own_and_the_seed_repeats_them():
    orders = {
        (seed, iteration): tuple(
            np.concatenate(
                [
                    step.rows
                    for step in epochs_plan(16, epochs=2, minibatches=1, learning_rate=0.1, seed=(seed, iteration))
                ]
            )
        )
        for seed in (1, 2)
        for iteration in (0, 1, 2)
    }
    assert len(set(orders.values())) == 6
    again = epochs_plan(16, epochs=2, minibatches=1, learning_rate=0.1, seed=(2, 1))
    assert tuple(np.concatenate([step.rows for step in again])) == orders[2, 1]


def test_rows_that_do_not_divide_evenly_are_all_trained_on():
    plan = epochs_plan(10, epochs=1, minibatches=4, learning_rate=0.1, seed=(1, 0))
    assert [len(step.rows) for step in plan] == [3, 3, 2, 2]
    assert sorted(np.concatenate([step.rows for step in plan])) == list(range(10))


def test_a_stream_cut_anywhere_is_the_same_stream():
    whole = stream_plan(10, batch_size=4, schedule=schedule(), steps=range(4), seed=3, group=1)
    parts = [
        step
        for steps in (range(1), range(1, 3), range(3, 4))
        for step in stream_plan(10, batch_size=4, schedule=schedule(), steps=steps, seed=3, group=1)
    ]
    for mine, its in zip(whole, parts, strict=True):
        assert np.array_equal(mine.rows, its.rows)
        assert (mine.learning_rate, mine.epoch) == (its.learning_rate, its.epoch)


def test_a_stream_visits_every_row_before_any_comes_again():
    plan = stream_plan(10, batch_size=4, schedule=schedule(num_steps=5), steps=range(5), seed=3, group=1)
    rows = np.concatenate([step.rows for step in plan])
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert [step.epoch for step in plan] == [0, 0, 0, 1, 1]


def test_groups_stay_together_in_order():
    plan = stream_plan(12, batch_size=2, schedule=schedule(num_steps=2), steps=range(2), seed=3, group=3)
    groups = np.concatenate([step.rows for step in plan]).reshape(4, 3)
    assert sorted(groups[:, 0]) == [0, 3, 6, 9]
    assert np.array_equal(groups, groups[:, :1] + np.arange(3))


@pytest.mark.parametrize(
    ("kind", "warmup", "rates"),
    [
        (ScheduleKind.LINEAR, 0, [8.0, 6.0, 4.0, 2.0]),
        (ScheduleKind.CONSTANT, 2, [4.0, 8.0, 8.0, 8.0]),
        (ScheduleKind.LINEAR, 2, [4.0, 8.0, 8.0, 4.0]),
        (ScheduleKind.COSINE, 0, [8.0, 4.0 + 4.0 * 2**-0.5, 4.0, 4.0 - 4.0 * 2**-0.5]),
    ],
)
def test_a_stage_takes_its_rates_in_this_order(kind, warmup, rates):
    steps = stream_plan(8, batch_size=1, schedule=schedule(kind, warmup=warmup), steps=range(4), seed=1, group=1)
    assert [step.learning_rate for step in steps] == pytest.approx(rates)
