"""What a learner reads off a model, and the step-0 identities."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import (
    LAYOUTS,
    METRICS,
    PPO,
    PROMPTS,
    RESPONSES,
    SEQUENCES,
    SETTINGS,
    plan,
    policy_batch,
    policy_learner,
)

from rlhf_ray.learner.forward import TokenDistribution
from rlhf_ray.learner.torch_learner import TorchLearner
from rlhf_ray.models.load import load_language_model
from rlhf_ray.types import (
    PolicyOutputs,
)


@pytest.mark.parametrize("family", ["llama", "tied_llama", "gpt2"])
def test_logprobs_are_those_of_each_row_alone_at_the_temperature(family: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(family)
    outputs = policy_learner(path).forward(SEQUENCES)
    assert isinstance(outputs, PolicyOutputs)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path).eval()
    for i, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1] / 0.7
        expected = logits.log_softmax(-1)
        chosen = expected[torch.arange(len(response)), torch.tensor(response)]
        np.testing.assert_allclose(outputs.logprobs.row(i), chosen.numpy(), rtol=0, atol=1e-5)
        entropy = -(expected.exp() * expected).sum(-1)
        np.testing.assert_allclose(outputs.entropy.row(i), entropy.numpy(), rtol=0, atol=1e-5)


def test_embedding_rows_beyond_the_tokenizer_get_no_probability(llama: Path) -> None:
    distribution = TokenDistribution(temperature=1.0, num_token_ids=61, chunk_tokens=100)
    learner = policy_learner(llama)
    limited = TorchLearner(
        load_language_model(llama, dtype=torch.float32),
        settings=dataclasses.replace(SETTINGS, distribution=distribution),
        metrics=METRICS,
    )
    assert (limited.forward(SEQUENCES).entropy.values <= np.log(61) + 1e-5).all()
    assert learner.forward(SEQUENCES).entropy.values.max() > np.log(61)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("max_tokens", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_step_zero_identities_hold_in_every_layout_and_epoch(
    family: str, max_tokens: int, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(family)
    batch = policy_batch(policy_learner(path, dtype=torch.float64))
    learner = policy_learner(path, dtype=torch.float64, max_tokens=max_tokens)
    result = learner.update(batch, plan=plan(0.0, 0.0), loss=PPO, stop=None)
    stats = {name: stat.value for name, stat in result.stats.items()}
    assert stats["val/ratio"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/ratio_max"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/ratio_p05"] == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/approxkl_avg"] == pytest.approx(0.0, abs=1e-6)
    assert stats["policy/clipfrac_avg"] == 0.0
    assert (result.optimizer_steps, result.epochs) == (2, 2)
