import numpy as np
import pytest
import torch

from rlhf_ray.algorithms.masking import mask_from_lengths
from rlhf_ray.algorithms.padding import pad, unpad
from rlhf_ray.types import Ragged, join

ROWS = Ragged.from_rows([[1.5, 2.5], [], [3.5, 4.5, 5.5]], np.float32)


@pytest.mark.parametrize("width", [3, 7])
def test_rows_come_back_from_padding_in_order(width: int) -> None:
    mask = mask_from_lengths(torch.from_numpy(ROWS.lengths), width=width)
    padded = pad(ROWS, mask)
    assert padded.dtype == torch.float64
    assert padded[0].tolist() == [1.5, 2.5] + [0.0] * (width - 2)
    back = unpad(padded, mask)
    assert back.values.tolist() == ROWS.values.tolist()
    assert back.offsets.tolist() == [0, 2, 2, 5]


def test_read_only_arrays_are_copied() -> None:
    values = np.ones(3, dtype=np.float64)
    values.setflags(write=False)
    padded = pad(Ragged(values=values, offsets=np.array([0, 3])), torch.ones(1, 3, dtype=torch.bool))
    padded += 1
    assert values.tolist() == [1.0, 1.0, 1.0]


def test_numbers_of_other_tokens_are_refused() -> None:
    with pytest.raises(AssertionError, match="align"):
        pad(ROWS, mask_from_lengths(torch.tensor([2, 1, 2]), width=3))


def test_prompt_and_response_stand_one_after_the_other() -> None:
    prompts = Ragged.from_rows([[1], [2, 3]], np.int32)
    sequences = join(prompts, Ragged.from_rows([[4, 5], []], np.int32))
    assert [row.tolist() for row in sequences.tokens.rows()] == [[1, 4, 5], [2, 3]]
    assert sequences.prompt_lengths.tolist() == [1, 2]
    assert sequences.tokens.values.dtype == np.int32
