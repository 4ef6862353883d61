import pytest

from rlhf_ray.tracking.rouge import rouge_stats


def test_rouge_by_hand():
    stats = rouge_stats(["the cat sat", "none"], ["the cat ran off", "such words"])
    # unigrams: 2 of 3 and 2 of 4; bigrams: 1 of 2 and 1 of 3; longest common subsequence: 2
    assert stats["sft/rouge1"].value == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4) / 2)
    assert stats["sft/rouge2"].value == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3) / 2)
    assert stats["sft/rougeL"].value == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4) / 2)


def test_a_perfect_copy_scores_one_and_no_rows_are_undefined():
    assert rouge_stats(["a b c"], ["a b c"])["sft/rouge2"].value == 1.0
    assert rouge_stats([], [])["sft/rouge1"].value is None
