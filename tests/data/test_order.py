import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhf_ray.data.order import epoch_order, group_rows, original_order, split_by_load, stream_rows


@given(num_rows=st.integers(1, 200), seed=st.integers(0, 2**63), epoch=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_an_epoch_visits_every_row_once_and_again_in_the_same_order(num_rows, seed, epoch):
    order = epoch_order(num_rows, seed=seed, epoch=epoch)
    assert sorted(order.tolist()) == list(range(num_rows))
    assert np.array_equal(order, epoch_order(num_rows, seed=seed, epoch=epoch))


def test_order_depends_on_seed_and_on_epoch():
    first = epoch_order(100, seed=1, epoch=0)
    assert not np.array_equal(first, epoch_order(100, seed=2, epoch=0))
    assert not np.array_equal(first, epoch_order(100, seed=1, epoch=1))


@given(num_rows=st.integers(1, 30), start=st.integers(0, 200), count=st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_the_stream_is_the_epochs_end_to_end(num_rows, start, count):
    epochs = np.concatenate([epoch_order(num_rows, seed=3, epoch=epoch) for epoch in range(300 // num_rows + 2)])
    rows = stream_rows(num_rows, seed=3, start=start, count=count)
    assert rows.tolist() == epochs[start : start + count].tolist()
    assert len(rows) == count


def test_iterations_cover_each_epoch_though_the_batch_does_not_divide_it():
    taken = np.concatenate([stream_rows(10, seed=5, start=step * 4, count=4) for step in range(5)])
    assert sorted(taken[:10].tolist()) == sorted(taken[10:].tolist()) == list(range(10))


@given(
    lengths=st.lists(st.integers(1, 500), max_size=60),
    max_new_tokens=st.integers(1, 500),
    num_parts=st.integers(1, 8),
)
@settings(max_examples=100, deadline=None)
def test_every_row_is_in_one_part_and_loads_differ_by_at_most_one_row(lengths, max_new_tokens, num_parts):
    parts = split_by_load(np.array(lengths, dtype=np.int64), max_new_tokens=max_new_tokens, num_parts=num_parts)
    assert len(parts) == num_parts
    assert sorted(row for part in parts for row in part.tolist()) == list(range(len(lengths)))
    loads = [sum(lengths[row] + max_new_tokens for row in part.tolist()) for part in parts]
    assert max(loads) - min(loads) <= max((length + max_new_tokens for length in lengths), default=0)


def test_long_prompts_are_spread_over_the_parts():
    parts = split_by_load(np.array([90, 80, 10, 10, 10, 10]), max_new_tokens=0, num_parts=2)
    # 90 | 80, then each 10 to the lighter part, the first one where both are equal
    assert [part.tolist() for part in parts] == [[0, 3, 5], [1, 2, 4]]


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40), num_parts=st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_results_of_the_parts_go_back_in_order(lengths, num_parts):
    parts = split_by_load(np.array(lengths), max_new_tokens=8, num_parts=num_parts)
    results = np.concatenate([np.array([f"row {row}" for row in part], dtype=object) for part in parts])
    assert results[original_order(parts)].tolist() == [f"row {row}" for row in range(len(lengths))]


def test_answers_of_a_prompt_stand_side_by_side():
    assert group_rows(np.array([2, 0]), group=3).tolist() == [6, 7, 8, 0, 1, 2]


def test_no_parts_are_a_broken_call():
    with pytest.raises(AssertionError):
        split_by_load(np.array([1]), max_new_tokens=1, num_parts=0)
