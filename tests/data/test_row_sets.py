"""A part of the rows with the plan for it trains on the same rows as the whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.data import row_sets
from rlhf_ray.data.on_disk import on_disk
from rlhf_ray.data.preference_groups import group_batch
from rlhf_ray.data.row_sets import RowSetSize, over_named_rows, size_of, take_rows
from rlhf_ray.types import Minibatch, Ragged, Sequences


def pairs():
    """Three pairs; rows [1, 0], [1, 1], [1, 2], ..., told apart by their answer token."""
    sequences = Sequences(
        tokens=Ragged.from_rows([[1, i] for i in range(6)], np.int32), prompt_lengths=np.ones(6, dtype=np.int64)
    )
    return group_batch(sequences, np.array([0.0, 1.0, 3.0, 2.0, 5.0, 5.0]), group=2)


def test_rows_are_taken_in_the_order_named_and_are_in_memory():
    batch = take_rows(on_disk(pairs()), [4, 5, 2, 3])
    assert batch.sequences.tokens.values.reshape(-1, 2)[:, 1].tolist() == [4, 5, 2, 3]
    assert batch.targets.labels.values.tolist() == [5.0, 5.0, 3.0, 2.0]
    assert batch.row_counts.tolist() == [0, 0, 1, 0]
    assert batch.rows_per_group == 2
    arrays = [batch.sequences.tokens.values, batch.sequences.prompt_lengths, batch.row_counts]
    assert [type(array) for array in arrays] == [np.ndarray] * 3


def test_a_size_counts_rows_groups_and_pairs_that_differ():
    size = size_of(pairs())
    assert (size.num_rows, size.group, size.num_groups, size.divisor) == (6, 2, 3, 2.0)


def test_a_piece_is_bounded_in_tokens_as_if_all_rows_were_as_long_as_the_longest(monkeypatch):
    monkeypatch.setattr(row_sets, "HANDED_TOKENS", 9)  # two pairs of rows of 2 tokens
    size = size_of(pairs())
    assert [rows.tolist() for rows in size.pieces()] == [[0, 1, 2, 3], [4, 5]]
    monkeypatch.setattr(row_sets, "HANDED_TOKENS", 1)  # a group is never cut
    assert [rows.tolist() for rows in size_of(pairs()).pieces()] == [[0, 1], [2, 3], [4, 5]]


def test_no_rows_are_no_pieces():
    assert list(RowSetSize(num_rows=0, group=2, divisor=0.0, max_groups=4).pieces()) == []


def step(*rows, epoch=0):
    return Minibatch(rows=np.array(rows), learning_rate=0.5, epoch=epoch)


def test_every_named_row_comes_once_and_the_plan_names_its_place():
    rows, plan = over_named_rows([step(7, 8, 2, 3), step(2, 3, 7, 8, epoch=1), step(40, 41)])
    assert rows.tolist() == [2, 3, 7, 8, 40, 41]
    assert [one.rows.tolist() for one in plan] == [[2, 3, 0, 1], [0, 1, 2, 3], [4, 5]]
    assert [(one.learning_rate, one.epoch) for one in plan] == [(0.5, 0), (0.5, 1), (0.5, 0)]


@given(steps=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_new_plan_names_the_same_rows_in_the_same_order(steps):
    rows, plan = over_named_rows([step(*named) for named in steps])
    assert [rows[one.rows].tolist() for one in plan] == steps
