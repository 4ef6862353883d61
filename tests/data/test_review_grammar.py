from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vaderSentiment.vaderSentiment import BOOSTER_DICT, NEGATE, SentimentIntensityAnalyzer

from rlhf_ray.data.review_grammar import (
    NEGATIVE,
    POSITIVE,
    TOPICS,
    Tone,
    continuations,
    grammar_trigrams,
    openings,
    well_formedness,
)
from rlhf_ray.data.reviews import all_openings, write_reviews
from rlhf_ray.data.slots import END, START


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_every_review_is_perfectly_well_formed(seed):
    rng = Random(seed)
    for review in write_reviews(rng.choices(all_openings(), k=20), rng):
        assert well_formedness(review.opening, review.continuation) == 1.0
        assert well_formedness("", review.opening + review.continuation) == 1.0


def test_shuffled_reviews_are_mostly_malformed():
    rng = Random(0)
    shares = []
    for review in write_reviews(rng.choices(all_openings(), k=500), rng):
        words = review.continuation.split()
        rng.shuffle(words)
        shares.append(well_formedness(review.opening, " " + " ".join(words)))
    assert sum(shares) / len(shares) < 0.3


@pytest.mark.parametrize("answer", [" superb wonderful brilliant great", " great great great great.", " superb", "."])
def test_word_salad_scores_nothing_but_its_end(answer):
    assert well_formedness("The film Anna chose", answer) <= 0.25


@pytest.mark.parametrize("answer", [" was superb and superb.", " was superb and dismal."])
def test_repeated_or_contradicting_adjectives_cost_a_trigram(answer):
    assert well_formedness("The film Anna chose", answer) < 1.0


def test_a_repeated_closing_sentence_is_malformed():
    once = " was superb and great. A lovely evening."
    assert well_formedness("The film Anna chose", once) == 1.0
    assert well_formedness("The film Anna chose", once + " A lovely evening.") < 0.9


def test_adjectives_have_the_sign_of_their_list_and_follow_the_article_a():
    lexicon = SentimentIntensityAnalyzer().lexicon
    assert len(set(POSITIVE)) == len(set(NEGATIVE)) == 16
    assert all(lexicon[word] > 1 for word in POSITIVE)
    assert all(lexicon[word] < -1 for word in NEGATIVE)
    assert all(word[0] not in "aeiou" for word in POSITIVE + NEGATIVE)


def test_every_other_word_is_neutral_to_vader():
    lexicon = SentimentIntensityAnalyzer().lexicon
    words = {word.strip(".,").lower() for trigram in grammar_trigrams() for word in trigram} - {START, END}
    scaffolding = words - set(POSITIVE) - set(NEGATIVE)
    assert scaffolding.isdisjoint(lexicon)
    assert scaffolding.isdisjoint(BOOSTER_DICT)
    assert scaffolding.isdisjoint(NEGATE)


def test_pools_of_distinct_words_outnumber_their_slots():
    for topic in TOPICS:
        for shape in continuations(topic):
            for pool in {slot.pool for slot in shape.skeleton if slot.distinct}:
                assert sum(slot.pool == pool for slot in shape.skeleton) < len(pool)


def test_one_sided_reviews_use_one_list_and_mixed_ones_both():
    uses = {Tone.POSITIVE: {POSITIVE}, Tone.NEGATIVE: {NEGATIVE}, Tone.MIXED: {POSITIVE, NEGATIVE}}
    for topic in TOPICS:
        for shape in continuations(topic):
            assert {slot.pool for slot in shape.skeleton} & {POSITIVE, NEGATIVE} == uses[shape.tone]
        for opening in openings(topic):
            assert {slot.pool for slot in opening}.isdisjoint({POSITIVE, NEGATIVE})
