from __future__ import annotations

import numpy as np
import torch

from rlhf_ray.generation.hf_generator import GumbelMax, left_pad
from rlhf_ray.types import Ragged


def test_gumbel_max_draws_each_token_as_often_as_its_probability_says():
    # softmax([2, 1, 0] / 0.5) = [0.8668, 0.1173, 0.0159]
    sampler = GumbelMax(range(4000), temperature=0.5, num_ids=None)
    scores = torch.tensor([[2.0, 1.0, 0.0]]).expand(4000, 3)
    drawn = sampler(torch.zeros(4000, 0), scores).argmax(dim=-1)
    shares = np.bincount(drawn.numpy(), minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.8668, 0.1173, 0.0159], atol=0.02)


def test_logprobs_are_free_of_noise_and_follow_the_temperature():
    # log softmax([2, 1, 0] / T)[0]: -0.407606 at T = 1, -0.142932 at T = 0.5
    for temperature, expected in ((1.0, -0.407606), (0.5, -0.142932), (0.0, -0.407606)):
        sampler = GumbelMax(range(50), temperature=temperature, num_ids=None)
        drawn = sampler(torch.zeros(50, 0), torch.tensor([[2.0, 1.0, 0.0]]).expand(50, 3)).argmax(dim=-1)
        of_first = sampler.drawn_logprobs[0][drawn == 0]
        np.testing.assert_allclose(of_first.numpy(), expected, atol=1e-6)
        assert (temperature > 0) == bool((drawn != 0).any())


def test_prompts_are_padded_on_the_left():
    token_ids, mask = left_pad(Ragged.from_rows([[7, 8, 9], [5]], np.int32))
    assert token_ids.tolist() == [[7, 8, 9], [0, 0, 5]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]
