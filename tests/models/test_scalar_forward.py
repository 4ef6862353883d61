from pathlib import Path

import numpy as np
import pytest
import torch

from rlhf_ray.models.load import HeadStart, load_scalar_model
from rlhf_ray.models.scalar_forward import scalar_outputs
from rlhf_ray.types import Ragged, Sequences

ROWS = [[5, 9, 33, 2, 60, 7, 8], [1, 2], [40, 41, 42, 43], [3]]
SEQUENCES = Sequences(tokens=Ragged.from_rows(ROWS, np.int32), prompt_lengths=np.array([3, 1, 4, 1]))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("max_tokens", [1, 14, 1000])
def test_values_are_read_before_each_response_token_and_scores_at_the_last(
    family: str, max_tokens: int, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(family)
    model = load_scalar_model(path, start=HeadStart.RANDOM, head="score", seed=0, dtype=torch.float32)
    outputs = scalar_outputs(model, SEQUENCES, max_tokens=max_tokens)
    assert outputs.values.lengths.tolist() == [4, 1, 0, 0]
    for index, (row, prompt_length) in enumerate(zip(ROWS, SEQUENCES.prompt_lengths, strict=True)):
        with torch.no_grad():
            alone = model.score(model.hidden_states(torch.tensor([row])))[0].numpy()
        np.testing.assert_allclose(outputs.values.row(index), alone[prompt_length - 1 : -1], rtol=0, atol=1e-5)
        np.testing.assert_allclose(outputs.scores.row(index), alone[-1:], rtol=0, atol=1e-5)


def test_no_rows_give_no_outputs(llama: Path) -> None:
    model = load_scalar_model(llama, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float32)
    nothing = Sequences(tokens=Ragged.from_rows([], np.int32), prompt_lengths=np.zeros(0, dtype=np.int64))
    outputs = scalar_outputs(model, nothing, max_tokens=10)
    assert len(outputs.values) == len(outputs.scores) == 0
