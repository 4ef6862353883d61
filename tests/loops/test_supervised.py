"""What the supervised loop asks of its trainee, and when it records."""

import numpy as np
import pytest

from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.algorithms.schedules import ScheduleKind
from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.data.order import stream_rows
from rlhf_ray.loops.checkpoints import Checkpoints
from rlhf_ray.loops.plan import Schedule
from rlhf_ray.loops.supervised import SupervisedHooks, SupervisedSettings, train_supervised
from rlhf_ray.types import Last, Sum


class CountingTrainee:
    """Remembers the plans, and counts what it trained on."""

    def __init__(self):
        self.plans, self.evaluations = [], 0

    def update(self, update):
        self.plans.append(update.plan)
        return {
            "steps": Sum(len(update.plan)),
            "rows": Sum(sum(len(step.rows) for step in update.plan)),
            "rate": Last(update.plan[-1].learning_rate),
        }

    def evaluate(self, loss):
        self.evaluations += 1
        return {"validated": Sum(self.evaluations), type(loss).__name__: Sum(1)}

    def save(self, folder):
        (folder / "policy").write_text("weights")


def train(tmp_path, *, steps_at_once, start=0, num_steps=10, log_every=4, checkpoint_every=6):
    """Batches of 3 of 7 rows; (trainee, records)."""
    trainee, records = CountingTrainee(), {}
    settings = SupervisedSettings(
        seed=5,
        num_rows=7,
        num_steps=num_steps,
        batch_size=3,
        group=1,
        schedule=Schedule(kind=ScheduleKind.LINEAR, base=1.0, num_steps=num_steps, warmup=0),
        loss=SftLoss(),
        log_every=log_every,
        steps_at_once=steps_at_once,
    )
    store = CheckpointStore(tmp_path / "checkpoints", keep=1, parts=("policy",))
    hooks = SupervisedHooks(
        record=lambda step, stats: records.update({step: stats}),
        validation=lambda stats: stats,
        finish=lambda: {"finished": Last(1.0)},
        checkpoints=Checkpoints(store=store, every=checkpoint_every, rows={}),
    )
    train_supervised(trainee, settings, start=start, hooks=hooks)
    return trainee, records


@pytest.mark.parametrize("steps_at_once", [1, 3, 100])
def test_long_stretches_are_asked_for_in_parts_and_recorded_as_one(tmp_path, steps_at_once):
    trainee, records = train(tmp_path, steps_at_once=steps_at_once)
    assert max(len(plan) for plan in trainee.plans) <= steps_at_once
    visited = np.concatenate([step.rows for plan in trainee.plans for step in plan])
    assert visited.tolist() == stream_rows(7, seed=5, start=0, count=30).tolist()
    assert {step: stats["steps"].value for step, stats in records.items() if step} == {4: 4, 6: 2, 8: 2, 10: 2}
    assert records[4]["rows"] == Sum(12)
    assert records[4]["rate"].value == pytest.approx(0.7)


def test_validation_comes_first_with_checkpoints_and_last(tmp_path):
    _, records = train(tmp_path, steps_at_once=2)
    assert {step: stats["validated"].value for step, stats in records.items() if "validated" in stats} == {
        0: 1,
        6: 2,
        10: 3,
    }
    assert [step for step, stats in records.items() if "SftLoss" in stats] == [0, 6, 10]
    assert [step for step, stats in records.items() if "finished" in stats] == [10]


def test_a_resumed_loop_goes_on_with_the_next_rows_and_does_not_record_its_start(tmp_path):
    trainee, records = train(tmp_path, steps_at_once=2, start=6)
    visited = np.concatenate([step.rows for plan in trainee.plans for step in plan])
    assert visited.tolist() == stream_rows(7, seed=5, start=18, count=12).tolist()
    assert sorted(records) == [8, 10]
