import hashlib
import os
import subprocess
import sys
from random import Random

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from rlhf_ray.data.review_grammar import Tone
from rlhf_ray.data.reviews import all_openings, build_corpus, write_reviews
from rlhf_ray.data.rows import CorpusSizes
from rlhf_ray.errors import ConfigError

SMALL = CorpusSizes(demonstrations=50, prompts=40, held_out_prompts=10, held_out_demonstrations=15)
PRINT_DIGEST = """
import hashlib
from rlhf_ray.data.reviews import build_corpus
from rlhf_ray.data.rows import CorpusSizes
sizes = CorpusSizes(demonstrations=50, prompts=40, held_out_prompts=10, held_out_demonstrations=15)
print(hashlib.sha256(repr(build_corpus(sizes, seed=7)).encode()).hexdigest())
"""


def test_the_corpus_has_the_sizes_asked_for(corpus):
    assert len(corpus.demonstrations) == 10_000
    assert len(corpus.prompts) == 3_840
    assert len(corpus.held_out_prompts) == 512
    assert len(corpus.held_out_demonstrations) == 600


def test_prompts_are_distinct_and_held_out_ones_appear_nowhere_in_training(corpus):
    training = {row.prompt for row in corpus.prompts}
    held_out = {row.prompt for row in corpus.held_out_prompts}
    assert (len(training), len(held_out)) == (3_840, 512)
    assert held_out.isdisjoint(training)
    assert {row.prompt for row in corpus.demonstrations} <= training
    assert {row.prompt for row in corpus.held_out_demonstrations} == held_out


def test_ids_are_unique_over_training_and_held_out_rows(corpus):
    ids = [row.id for row in corpus.prompts + corpus.held_out_prompts]
    assert len(set(ids)) == len(ids)


def test_the_same_seed_writes_the_same_corpus_in_another_process_with_another_hash_seed():
    here = hashlib.sha256(repr(build_corpus(SMALL, seed=7)).encode()).hexdigest()
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    there = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert there.stdout.strip() == here


def test_another_seed_writes_another_corpus():
    assert build_corpus(SMALL, seed=7).prompts != build_corpus(SMALL, seed=8).prompts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mean_sentiment_of_the_corpus_is_near_zero(seed):
    sizes = CorpusSizes(demonstrations=10_000, prompts=3_840, held_out_prompts=512, held_out_demonstrations=0)
    vader = SentimentIntensityAnalyzer()
    scores = [vader.polarity_scores(row.response)["compound"] for row in build_corpus(sizes, seed=seed).demonstrations]
    assert abs(sum(scores) / len(scores)) <= 0.05


def test_one_sided_reviews_score_beyond_the_targets_of_training():
    vader = SentimentIntensityAnalyzer()
    rng = Random(0)
    scores = {tone: [] for tone in Tone}
    for review in write_reviews(rng.choices(all_openings(), k=3_000), rng):
        scores[review.tone].append(vader.polarity_scores(review.continuation)["compound"])
    assert min(scores[Tone.POSITIVE]) >= 0.8
    assert max(scores[Tone.NEGATIVE]) <= -0.8
    assert abs(sum(scores[Tone.MIXED]) / len(scores[Tone.MIXED])) < 0.15
    shares = [len(scores[tone]) / 3_000 for tone in (Tone.POSITIVE, Tone.NEGATIVE, Tone.MIXED)]
    assert shares == pytest.approx([0.36, 0.38, 0.26], abs=0.03)


def test_openings_are_neutral():
    vader = SentimentIntensityAnalyzer()
    assert {vader.polarity_scores(opening.text)["compound"] for opening in all_openings()} == {0.0}


def test_more_prompts_than_openings_are_refused():
    sizes = CorpusSizes(demonstrations=1, prompts=1_000_000, held_out_prompts=1, held_out_demonstrations=0)
    with pytest.raises(ConfigError, match="1000001 distinct prompts asked for; the built-in corpus has"):
        build_corpus(sizes, seed=1)
