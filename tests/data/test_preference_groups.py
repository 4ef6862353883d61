import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhf_ray.data.preference_groups import group_batch
from rlhf_ray.types import Ragged, Sequences


def answers(count):
    """Rows [1, 0], [1, 1], [1, 2], ..., told apart by their answer token."""
    return Sequences(
        tokens=Ragged.from_rows([[1, i] for i in range(count)], np.int32), prompt_lengths=np.ones(count, dtype=np.int64)
    )


def test_an_answer_counts_once_for_every_pair_it_wins():
    batch = group_batch(answers(6), np.array([-1.0, 2.0, 0.25, 0.5, 0.5, 0.5]), group=3)
    assert batch.row_counts.tolist() == [0, 2, 1, 0, 0, 0]
    assert [row.tolist() for row in batch.targets.labels.rows()] == [[-1.0], [2.0], [0.25], [0.5], [0.5], [0.5]]
    assert batch.rows_per_group == 3


@given(
    group=st.integers(1, 5),
    scores=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=5, max_size=5), max_size=6),
)
@settings(max_examples=50)
def test_the_divisor_is_the_number_of_unequal_pairs_of_each_prompt(group, scores):
    labels = np.array([row[:group] for row in scores], dtype=np.float64).reshape(-1)
    num_pairs = sum(
        labels[i] > labels[j] for i in range(len(labels)) for j in range(len(labels)) if i // group == j // group
    )
    assert group_batch(answers(len(labels)), labels, group=group).row_counts.sum() == num_pairs


def test_labels_that_are_equal_as_they_travel_make_no_pair():
    batch = group_batch(answers(2), np.array([0.5, 0.5 + 1e-12]), group=2)
    assert batch.row_counts.tolist() == [0, 0]
