import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhf_ray.data.preferences import held_out_mask, preference_batch, preference_pairs, split_pairs
from rlhf_ray.types import Ragged, Sequences


def test_three_answers_make_three_pairs_with_the_higher_one_chosen():
    pairs = preference_pairs(np.array([0.5, -0.25, 0.75]), num_samples=3)
    assert pairs.chosen_rows.tolist() == [0, 2, 2]
    assert pairs.rejected_rows.tolist() == [1, 0, 1]
    assert pairs.gold_gap.tolist() == [0.75, 0.25, 1.0]


def test_equal_scores_make_no_pair_and_prompts_are_never_mixed():
    pairs = preference_pairs(np.array([1.0, 1.0, 0.0, 3.0]), num_samples=2)
    assert pairs.chosen_rows.tolist() == [3]
    assert pairs.rejected_rows.tolist() == [2]


@given(
    num_samples=st.integers(1, 5),
    scores=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=5, max_size=5), max_size=6),
)
@settings(max_examples=50, deadline=None)
def test_pairs_are_all_unequal_ones_of_each_prompt(num_samples, scores):
    gold = np.array([row[:num_samples] for row in scores], dtype=np.float64).reshape(-1)
    by_loop = {
        (i, j)
        for i in range(len(gold))
        for j in range(len(gold))
        if i // num_samples == j // num_samples and gold[i] > gold[j]
    }
    pairs = preference_pairs(gold, num_samples=num_samples)
    assert set(zip(pairs.chosen_rows.tolist(), pairs.rejected_rows.tolist(), strict=True)) == by_loop
    assert len(pairs.gold_gap) == len(by_loop)
    assert (pairs.gold_gap > 0).all()


def test_prompts_with_the_same_text_are_held_out_together():
    texts = ["a", "b", "a", "c", "b", "d"]
    for seed in range(20):
        mask = held_out_mask(texts, num_held_out=2, seed=seed)
        assert mask[0] == mask[2]
        assert mask[1] == mask[4]
        assert 2 <= mask.sum() <= 3


def test_the_held_out_split_depends_on_the_seed_alone():
    texts = [f"prompt {i}" for i in range(50)]
    first = held_out_mask(texts, num_held_out=10, seed=1)
    assert np.array_equal(first, held_out_mask(texts, num_held_out=10, seed=1))
    assert not np.array_equal(first, held_out_mask(texts, num_held_out=10, seed=2))


def test_pairs_follow_their_prompt_to_either_side_of_the_split():
    pairs = preference_pairs(np.array([1.0, 0.0, 0.0, 1.0]), num_samples=2)
    training, held_out = split_pairs(pairs, held_out=np.array([False, False, True, True]))
    assert (training.chosen_rows.tolist(), training.rejected_rows.tolist()) == ([0], [1])
    assert (held_out.chosen_rows.tolist(), held_out.rejected_rows.tolist()) == ([3], [2])


def test_a_group_counts_each_answer_by_the_pairs_it_wins_and_groups_of_ties_are_left_out():
    sequences = Sequences(
        tokens=Ragged.from_rows([[1, 10], [1, 11], [1, 12], [2, 13], [2, 14], [2, 15]], np.int32),
        prompt_lengths=np.ones(6, dtype=np.int64),
    )
    labels = np.array([0.5, 0.5, 0.5, -1.0, 2.0, 0.25])
    batch = preference_batch(sequences, labels=labels, rows_per_group=3)
    assert [row.tolist() for row in batch.sequences.tokens.rows()] == [[2, 13], [2, 14], [2, 15]]
    assert [row.tolist() for row in batch.targets.labels.rows()] == [[-1.0], [2.0], [0.25]]
    assert batch.row_counts.tolist() == [0, 2, 1]
    assert batch.rows_per_group == 3


def test_the_divisor_of_a_group_is_its_number_of_pairs():
    sequences = Sequences(
        tokens=Ragged.from_rows([[1, i] for i in range(8)], np.int32), prompt_lengths=np.ones(8, dtype=np.int64)
    )
    gold = np.array([0.1, 0.2, 0.2, -0.4, 0.9, 0.8, 0.7, 0.6])
    batch = preference_batch(sequences, labels=gold, rows_per_group=4)
    assert batch.row_counts.sum() == len(preference_pairs(gold, num_samples=4).gold_gap) == 11
