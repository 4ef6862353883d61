from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import write_llama, write_reward_model

from rlhf_ray.errors import DivergedError, ModelError
from rlhf_ray.models.load import HeadStart, load_scalar_model
from rlhf_ray.models.save import save_scalar_model
from rlhf_ray.reward.model_scorer import ModelScorer
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged

PROMPTS = [[5, 9, 33], [1], [40, 41, 42, 43, 44, 45, 46, 47], [7, 7]]
ANSWERS = [[60, 2], [11, 12, 13, 14, 15, 2], [8], []]
CONTEXT = 12


def completions_of(prompts: list[list[int]], answers: list[list[int]]) -> Completions:
    tokens = Ragged.from_rows(answers, np.int32)
    return Completions(
        prompts=Prompts(
            ids=tuple(f"row-{i}" for i in range(len(prompts))),
            texts=("",) * len(prompts),
            tokens=Ragged.from_rows(prompts, np.int32),
        ),
        tokens=tokens,
        texts=("",) * len(prompts),
        logprobs=tokens.like(np.zeros(len(tokens.values), dtype=np.float32)),
        finish_reasons=(FinishReason.STOP,) * len(prompts),
        versions=np.zeros((len(prompts), 2), dtype=np.int64),
    )


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("language_model"), tied=False, context_length=CONTEXT, pad=0)


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory: pytest.TempPathFactory, language_model: Path) -> Path:
    return write_reward_model(
        tmp_path_factory.mktemp("reward_model"), language_model=language_model, mean=0.25, std=0.5
    )


def scores_alone(reward_model: Path, rows: list[list[int]]) -> list[float]:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(reward_model).eval()
    with torch.no_grad():
        # through the body and the head: the class itself guesses the last token from the pad id
        return [
            (model.score(model.model(torch.tensor([row])).last_hidden_state)[0, -1, 0].item() - 0.25) / 0.5
            for row in rows
        ]


@pytest.mark.parametrize("max_tokens", [1, 20, 1000])
def test_scores_are_those_of_each_answer_alone_at_its_last_token(reward_model: Path, max_tokens: int) -> None:
    rewards = ModelScorer(reward_model, max_tokens=max_tokens, device="cpu", head="score").score(
        completions_of(PROMPTS, ANSWERS)
    )
    expected = scores_alone(reward_model, [p + a for p, a in zip(PROMPTS, ANSWERS, strict=True)])
    np.testing.assert_allclose(rewards.scores, expected, rtol=0, atol=1e-5)
    assert [part.name for part in rewards.parts] == ["model"]


def test_a_prompt_too_long_for_the_reward_model_loses_its_left(
    reward_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = list(range(20, 35))
    rewards = ModelScorer(reward_model, max_tokens=1000, device="cpu", head="score").score(
        completions_of([long, [5]], [[9, 2], [6]])
    )
    np.testing.assert_allclose(rewards.scores, scores_alone(reward_model, [[*long[-10:], 9, 2], [5, 6]]), atol=1e-5)
    assert "1 of 2 prompts cut on the left" in caplog.text


def test_an_answer_longer_than_the_reward_model_reads_is_refused(reward_model: Path) -> None:
    scorer = ModelScorer(reward_model, max_tokens=1000, device="cpu", head="score")
    with pytest.raises(ModelError, match=r"reads 12 tokens, but an answer to prompt row-0 alone has 12"):
        scorer.score(completions_of([[1]], [[3] * CONTEXT]))


def test_a_language_model_is_refused_as_reward_model(language_model: Path) -> None:
    with pytest.raises(ModelError, match="is a language model without a score head"):
        ModelScorer(language_model, max_tokens=1000, device="cpu", head="score")


def test_a_score_that_is_not_finite_names_its_prompt(language_model: Path, tmp_path: Path) -> None:
    model = load_scalar_model(language_model, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float32)
    with torch.no_grad():
        model.classifier.score.weight.fill_(3e38)  # a sum of 32 products of this with about 1 is above every float32
    save_scalar_model(model, tmp_path, tokenizer_source=language_model, dtype=torch.float32)
    with pytest.raises(DivergedError, match=r"gives (nan|-?inf) for an answer to prompt row-0 \(4 of 4"):
        ModelScorer(tmp_path, max_tokens=1000, device="cpu", head="score").score(completions_of(PROMPTS, ANSWERS))
