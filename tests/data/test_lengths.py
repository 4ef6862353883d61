import numpy as np
import pytest

from rlhf_ray.data.lengths import cut_left, cut_prompts_left
from rlhf_ray.types import Ragged, Sequences


@pytest.mark.parametrize(
    ("max_tokens", "bos_token_id", "kept"),
    [
        (5, None, [1, 7, 8, 9]),
        (4, None, [1, 7, 8, 9]),
        (3, None, [7, 8, 9]),
        (3, 1, [1, 8, 9]),
        (1, 1, [1]),
        (1, 5, [9]),
    ],
)
def test_cutting_keeps_the_right_end_and_a_leading_bos(max_tokens, bos_token_id, kept):
    assert cut_left([1, 7, 8, 9], max_tokens=max_tokens, bos_token_id=bos_token_id) == kept


def test_only_rows_over_the_limit_are_cut_and_answers_stay_whole():
    sequences = Sequences(
        tokens=Ragged.from_rows([[1, 7, 8, 9, 20, 21], [1, 7, 20]], np.int32),
        prompt_lengths=np.array([4, 2], dtype=np.int64),
    )
    cut, num_cut = cut_prompts_left(sequences, max_tokens=4, bos_token_id=1)
    assert [row.tolist() for row in cut.tokens.rows()] == [[1, 9, 20, 21], [1, 7, 20]]
    assert cut.prompt_lengths.tolist() == [2, 2]
    assert num_cut == 1
