from random import Random

import pytest

from rlhf_ray.data.slots import END, START, any_of, ended, fill, fixed, new_of, trigram_share, trigrams

COLOURS = ("red", "blue")
TINY = (fixed("It was") + new_of(COLOURS) + fixed("and") + ended(new_of(COLOURS), "."),)


def test_trigrams_are_exactly_those_of_the_two_texts_a_tiny_grammar_writes():
    texts = ["It was red and blue.", "It was blue and red."]
    by_hand = set()
    for text in texts:
        words = [START, START, *text.split(), END]
        by_hand |= {tuple(words[i : i + 3]) for i in range(len(words) - 2)}
    assert trigrams(TINY) == by_hand


def test_distinct_words_are_never_repeated_side_by_side():
    assert ("red", "and", "red.") not in trigrams(TINY)
    assert ("red", "and", "blue.") in trigrams(TINY)


def test_words_that_may_repeat_do_repeat():
    assert ("red", "red", END) in trigrams((any_of(COLOURS) + any_of(COLOURS),))


def test_filling_uses_each_distinct_word_once():
    texts = {" ".join(fill(TINY[0], Random(seed))) for seed in range(20)}
    assert texts == {"It was red and blue.", "It was blue and red."}


@pytest.mark.parametrize(
    ("prompt", "answer", "share"),
    [
        ("", "It was red and blue.", 1.0),
        ("It was", " red and blue.", 1.0),
        ("It was ", "red and blue.", 1.0),
        ("It w", "as red and blue.", 1.0),
        ("It was", " red and red.", 3 / 4),  # all but (red and red.)
        ("It was", " red", 1 / 2),  # cut short: (was red END) is unknown
        ("It was", "red and blue.", 1 / 4),  # the words are It wasred and blue.: only the last trigram is known
        ("It was", "  red and blue.", 2 / 5),  # an empty word between the two spaces
        ("It was", "", 0.0),
        ("It was", " ", 0.0),
    ],
)
def test_share_counts_trigrams_that_end_in_the_answer(prompt, answer, share):
    known = trigrams(TINY)
    assert trigram_share(prompt, answer, known=known) == pytest.approx(share)
