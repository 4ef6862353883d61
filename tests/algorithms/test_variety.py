import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.algorithms.variety import distinct_n, repeated_ngram_share
from rlhf_ray.types import Mean, Ragged


def ragged(rows: list[list[int]]) -> Ragged:
    return Ragged.from_rows(rows, np.int32)


def test_distinct_by_hand() -> None:
    rows = ragged([[1, 2, 1, 2], [], [1, 2, 3]])
    assert distinct_n(rows, n=1) == pytest.approx(3 / 7)
    assert distinct_n(rows, n=2) == pytest.approx(3 / 5)  # 12 21 12 | 12 23: no pair crosses rows


def test_repetition_counts_within_an_answer_only() -> None:
    looped = [1, 2, 3, 4, 1, 2, 3, 4]  # 5 four-grams, 4 different
    assert repeated_ngram_share(ragged([looped, [1, 2, 3, 4], [1, 2, 3]]), n=4) == Mean(pytest.approx(0.2), 2.0)


def test_answers_too_short_for_an_ngram_leave_it_undefined() -> None:
    assert distinct_n(ragged([[1], []]), n=2) is None
    assert repeated_ngram_share(ragged([[1], []]), n=4).value is None
    assert distinct_n(ragged([]), n=1) is None


@given(st.lists(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 2), max_size=12), max_size=5), st.integers(1, 4))
def test_equals_counting_tuples(rows: list[list[int]], n: int) -> None:
    grams = [[tuple(row[i : i + n]) for i in range(len(row) - n + 1)] for row in rows]
    every = [gram for row in grams for gram in row]
    assert distinct_n(ragged(rows), n=n) == (len(set(every)) / len(every) if every else None)
    shares = [1 - len(set(row)) / len(row) for row in grams if row]
    repeated = repeated_ngram_share(ragged(rows), n=n)
    assert repeated.total == pytest.approx(sum(shares))
    assert repeated.count == len(shares)
