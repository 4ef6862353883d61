import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.models.batching import (
    RowCollector,
    collate,
    flat_positions,
    micro_batches,
    plan_micro_batches,
    response_offsets,
    take_targets,
)
from rlhf_ray.types import PreferenceTargets, Ragged, Sequences, SftTargets

CPU = torch.device("cpu")


def sequences_of(*rows: tuple[list[int], list[int]]) -> Sequences:
    """(prompt, response) pairs."""
    return Sequences(
        tokens=Ragged.from_rows([prompt + response for prompt, response in rows], np.int32),
        prompt_lengths=np.array([len(prompt) for prompt, _ in rows]),
    )


THREE = sequences_of(([11, 12], [13]), ([21], [22, 23, 24]), ([31, 32, 33], []))


def test_rows_are_padded_on_the_right_and_cells_point_at_the_token_before() -> None:
    micro_batch = collate(THREE, rows=np.array([2, 1, 0]), device=CPU)
    assert micro_batch.input_ids.tolist() == [[31, 32, 33, 0], [21, 22, 23, 24], [11, 12, 13, 0]]
    assert micro_batch.labels.tolist() == [22, 23, 24, 13]
    assert micro_batch.input_ids.flatten()[micro_batch.predicting_cells].tolist() == [21, 22, 23, 12]
    assert micro_batch.input_ids.flatten()[micro_batch.last_cells].tolist() == [33, 24, 13]


def test_an_end_token_inside_the_prompt_is_an_ordinary_token_and_the_final_one_is_a_label() -> None:
    eos = 2
    micro_batch = collate(sequences_of(([7, eos, 8], [9, eos]), ([5], [6])), rows=np.array([0, 1]), device=CPU)
    assert micro_batch.input_ids.tolist() == [[7, eos, 8, 9, eos], [5, 6, 0, 0, 0]]
    assert micro_batch.labels.tolist() == [9, eos, 6]


def test_micro_batches_keep_to_the_budget_and_take_the_longest_first() -> None:
    lengths = np.array([3, 9, 4, 8, 2])
    plan = plan_micro_batches(lengths, rows=np.arange(5), rows_per_group=1, max_tokens=18)
    assert [part.tolist() for part in plan] == [[1, 3], [2, 0, 4]]
    alone = plan_micro_batches(lengths, rows=np.arange(5), rows_per_group=1, max_tokens=1)
    assert [part.tolist() for part in alone] == [[1], [3], [2], [0], [4]]


def test_rows_of_a_group_stay_together_and_in_order() -> None:
    lengths = np.array([1, 2, 9, 1, 5, 5])
    plan = plan_micro_batches(lengths, rows=np.array([4, 5, 0, 1, 2, 3]), rows_per_group=2, max_tokens=18)
    assert [part.tolist() for part in plan] == [[2, 3], [4, 5], [0, 1]]
    with pytest.raises(AssertionError, match="3 rows do not make whole groups of 2"):
        plan_micro_batches(lengths, rows=np.arange(3), rows_per_group=2, max_tokens=18)


def test_no_rows_make_no_micro_batch() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert plan_micro_batches(np.array([3]), rows=empty, rows_per_group=1, max_tokens=18) == []


@given(
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=20),
    max_tokens=st.integers(1, 60),
)
def test_every_row_comes_once_within_the_budget_and_results_return_in_order(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    sequences = sequences_of(*[(list(range(1, p + 1)), list(range(p + 1, p + r + 1))) for p, r in lengths])
    collector = RowCollector(response_offsets(sequences))
    seen: list[int] = []
    for micro_batch in micro_batches(
        sequences, rows=np.arange(len(lengths)), rows_per_group=1, max_tokens=max_tokens, device=CPU
    ):
        seen += micro_batch.rows.tolist()
        assert len(micro_batch.rows) == 1 or micro_batch.input_ids.numel() <= max_tokens
        collector.add(micro_batch.labels, rows=micro_batch.rows)
    assert sorted(seen) == list(range(len(lengths)))
    assert [row.tolist() for row in collector.ragged().rows()] == [list(range(p + 1, p + r + 1)) for p, r in lengths]


def test_flat_positions_name_the_elements_of_rows_in_the_order_given() -> None:
    offsets = np.array([0, 2, 2, 5])
    assert flat_positions(offsets, rows=np.array([2, 1, 0])).tolist() == [2, 3, 4, 0, 1]


def test_targets_follow_the_rows_and_read_only_arrays_are_copied() -> None:
    weights = Ragged.from_rows([np.array([1.0]), np.array([2.0, 3.0, 4.0]), np.array([])], np.float32)
    weights.values.flags.writeable = False
    taken = take_targets(SftTargets(weights=weights), rows=np.array([2, 1, 0]), device=CPU)
    assert taken.weights.tolist() == [2.0, 3.0, 4.0, 1.0]
    taken.weights.add_(1)  # must not reach the array received
    assert weights.values.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_one_number_a_row_is_taken_like_any_other_target() -> None:
    labels = Ragged.from_rows([np.array([1.0]), np.array([0.0]), np.array([5.0])], np.float32)
    taken = take_targets(PreferenceTargets(labels=labels), rows=np.array([2, 0]), device=CPU)
    assert taken.labels.tolist() == [5.0, 1.0]
