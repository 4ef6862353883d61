import numpy as np
import pytest

from rlhf_ray.data.reviews import build_corpus
from rlhf_ray.data.rows import CorpusSizes
from rlhf_ray.reward.gold import GoldScorer
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged

OPENING = "The film Anna chose"


def completions_of(*pairs):
    """Answers whose texts alone matter."""
    count = len(pairs)
    return Completions(
        prompts=Prompts(
            ids=tuple(str(i) for i in range(count)),
            texts=tuple(prompt for prompt, _ in pairs),
            tokens=Ragged.from_rows([[1]] * count, np.int32),
        ),
        tokens=Ragged.from_rows([[2]] * count, np.int32),
        texts=tuple(answer for _, answer in pairs),
        logprobs=Ragged.from_rows([[0.0]] * count, np.float32),
        finish_reasons=(FinishReason.STOP,) * count,
        versions=np.zeros((count, 2), dtype=np.int64),
    )


@pytest.fixture(scope="module")
def scorer():
    return GoldScorer()


def test_a_grammatical_review_scores_its_vader_compound(scorer):
    rewards = scorer.score(completions_of((OPENING, " was superb and great. A lovely evening.")))
    # valences 3.1 + 3.1 + 2.8 = 9.0; 9 / sqrt(9^2 + 15) = 0.9186
    assert rewards.scores.tolist() == [0.9186]
    assert [part.name for part in rewards.parts] == ["vader", "well_formed"]
    assert [part.values.tolist() for part in rewards.parts] == [[0.9186], [1.0]]


def test_word_salad_of_nice_words_scores_nothing(scorer):
    rewards = scorer.score(completions_of((OPENING, " superb wonderful great lovely splendid brilliant perfect")))
    vader, well_formed = (part.values[0] for part in rewards.parts)
    assert vader > 0.95
    assert well_formed == 0.0
    assert rewards.scores.tolist() == [0.0]


def test_the_score_is_the_product_of_its_parts_and_negative_for_bad_reviews(scorer):
    rewards = scorer.score(completions_of((OPENING, " was dismal and vile."), (OPENING, " was dismal and vile. The")))
    vader, well_formed = (part.values for part in rewards.parts)
    assert rewards.scores == pytest.approx(vader * well_formed)
    assert well_formed.tolist() == pytest.approx([1.0, 5 / 6])
    assert rewards.scores[0] < rewards.scores[1] < 0


def test_empty_answers_and_empty_batches_score_zero(scorer):
    assert scorer.score(completions_of((OPENING, ""))).scores.tolist() == [0.0]
    assert scorer.score(completions_of()).scores.tolist() == []


def test_all_scores_are_finite_for_odd_texts(scorer):
    rewards = scorer.score(
        completions_of(("", "\x00"), (OPENING, "😁 " * 50), (OPENING, "\n\t"), ("", " "), (" ", "!!!"))
    )
    assert np.isfinite(rewards.scores).all()
    assert np.abs(rewards.scores).max() <= 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mean_gold_of_the_corpus_is_near_zero_and_every_review_well_formed(scorer, seed):
    sizes = CorpusSizes(demonstrations=3_000, prompts=3_840, held_out_prompts=512, held_out_demonstrations=0)
    rows = build_corpus(sizes, seed=seed).demonstrations
    rewards = scorer.score(completions_of(*((row.prompt, row.response) for row in rows)))
    assert rewards.parts[1].values.min() == 1.0
    assert abs(rewards.scores.mean()) <= 0.05
