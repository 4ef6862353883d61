"""Rows that are handed out a few at a time train and score as all of them together would."""

import dataclasses

import numpy as np
import pytest
from small_run import LOCAL, small_config

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.trainees import SftTrainee
from rlhf_ray.actors.transport import ObjectStoreTransport
from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.errors import DataError
from rlhf_ray.learner.base import Update
from rlhf_ray.pipeline import worker_settings
from rlhf_ray.types import Minibatch


@pytest.fixture
def team(bench, tmp_path):
    """Fresh models."""
    bench.open_models(tmp_path / "models")
    return bench.opened.team


def in_small_pieces(team, name, *, groups):
    """The same rows, at most so many groups at a time."""
    rows = HandedRows(team, name)
    rows.size = dataclasses.replace(rows.size, max_groups=groups)
    return rows


def fetched(team, ref):
    """The value of one ref."""
    return team.runtime.gather([ref])[0]


def test_the_rows_that_are_asked_for_arrive_and_no_others(team):
    rows = HandedRows(team, RowSet.DEMONSTRATIONS)
    everything = fetched(team, rows.take(np.arange(rows.size.num_rows)))
    few = fetched(team, rows.take(np.array([9, 3, 40])))
    assert [row.tolist() for row in few.sequences.tokens.rows()] == [
        everything.sequences.tokens.row(i).tolist() for i in (9, 3, 40)
    ]
    assert few.row_counts.tolist() == everything.row_counts[[9, 3, 40]].tolist()
    assert (rows.size.num_rows, rows.size.group) == (256, 1)


def test_steps_over_rows_fetched_for_them_end_in_the_same_weights(bench, team, tmp_path):
    """Two updates of two steps, the second of which meets rows of the first again, against one on all rows."""
    train, held_out = HandedRows(team, RowSet.DEMONSTRATIONS), HandedRows(team, RowSet.HELD_OUT_DEMONSTRATIONS)
    named = [[5, 200, 7, 9], [200, 1, 0, 255], [9, 8, 7, 6], [255, 200, 5, 1]]
    plan = [Minibatch(rows=np.array(rows), learning_rate=0.05, epoch=0) for rows in named]
    transport = ObjectStoreTransport(team.runtime, team.workers.policy, team.workers.generators)
    before = transport.send(1)[0].digest
    whole = train.take(np.arange(train.size.num_rows))
    fetched(team, team.runtime.call(team.workers.policy, LearnerWorker.update, whole, plan, SftLoss(), None))
    expected = transport.send(2)[0].digest

    bench.open_models(tmp_path / "again")
    trainee = SftTrainee(team, team.workers.policy, train=train, held_out=held_out)
    for part in (plan[:2], plan[2:]):
        trainee.update(Update(plan=part, loss=SftLoss(), stop=None))
    assert transport.send(3)[0].digest == expected != before


def test_held_out_rows_in_pieces_have_the_loss_of_all_together(team):
    train = HandedRows(team, RowSet.DEMONSTRATIONS)
    losses = {}
    for groups in (5, 1000):
        held_out = in_small_pieces(team, RowSet.HELD_OUT_DEMONSTRATIONS, groups=groups)
        stats = SftTrainee(team, team.workers.policy, train=train, held_out=held_out).evaluate(SftLoss())
        losses[groups] = stats["sft/loss"]
    assert losses[5].count == losses[1000].count > 16
    assert losses[5].value == pytest.approx(losses[1000].value, rel=1e-6)


def test_scores_come_in_the_order_of_the_rows(team):
    pieces, whole = (
        in_small_pieces(team, RowSet.HELD_OUT_DEMONSTRATIONS, groups=groups).scores(team.workers.critic)
        for groups in (3, 1000)
    )
    assert len(pieces) == 16
    assert len(set(whole.tolist())) > 8
    assert pieces == pytest.approx(whole, abs=1e-5)


def test_rows_that_the_run_does_not_have_are_asked_for_by_their_setting(finished_run, tmp_path):
    config = small_config(tmp_path / "run", *LOCAL)
    worker = DataWorker(worker_settings.data_settings(config, tmp_path))
    base_model = finished_run / "artifacts" / "base-model"
    worker.open_built_in("reviews", worker_settings.corpus_sizes(config), base_model, None)
    with pytest.raises(DataError, match=r"this run has no held_out_preferences; set data\.preferences"):
        worker.row_set_size(RowSet.HELD_OUT_PREFERENCES)
