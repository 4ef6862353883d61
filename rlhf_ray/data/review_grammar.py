"""The grammar of the built-in corpus: short reviews with a neutral opening and an overall tone.

Apart from the 32 adjectives no word carries sentiment, so the adjectives alone decide VADER's score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from rlhf_ray.data.slots import Skeleton, Trigram, any_of, ended, fixed, new_of, trigram_share, trigrams


class Tone(StrEnum):
    """What a review says overall."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a review is about."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]  # "The film Anna chose"
    prepositions: tuple[str, ...]  # "The film about Oslo"
    aspects: tuple[str, ...]
    verdicts: tuple[str, ...]  # "A superb evening."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to build a continuation, with its weight among those of its tone."""

    skeleton: Skeleton
    tone: Tone
    weight: float


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# All 32 adjectives are in VADER's lexicon, start with a consonant ("a superb film") and fit every topic.
POSITIVE = _words(
    "superb wonderful brilliant charming lovely great fantastic perfect "
    "beautiful pleasant splendid delightful remarkable nice pleasing fabulous"
)
NEGATIVE = _words(
    "horrible terrible horrendous nasty lousy pathetic dismal disastrous "
    "disappointing miserable poor bad horrific horrid rotten vile"
)
NAMES = _words(
    "Anna Ben Carla David Elena Felix Greta Hugo Irene Jonas Karin Leo Maria Nadia Oscar Paula Ravi Sofia "
    "Tomas Vera Walter Yusuf Zara Amir Bella Daria Emil Fiona Goran Hanna Ivan Julia Kofi Lena Milo Nora "
    "Otto Petra Rosa Aisha Chen Daniel Eva Farid Ines Kenji Lucia Omar "
    "Beatrice Dmitri Esther Gustav Jamila Ludwig Miriam Priya Quentin Sigrid Theo Ursula Viktor Wendy Xavier"
)
PLACES = _words(
    "Oslo Lisbon Cairo Lima Quito Dublin Prague Vienna Naples Kyoto Delhi Accra Berlin Madrid Athens Tunis "
    "Boston Nairobi Hanoi Seoul Porto Geneva Krakow Tokyo"
)
DETERMINERS = ("The", "This")
LINKING_VERBS = ("was", "felt", "seemed", "looked", "sounded", "appeared", "proved", "remained")
SPEAKERS = ("We", "They", "I")
OPINION_VERBS = ("found", "called", "thought")

TOPICS = (
    Topic(
        nouns=("film", "movie", "documentary"),
        verbs=("chose", "picked", "watched", "found"),
        prepositions=("about", "from"),
        aspects=_words("acting plot script music dialogue camera pacing lighting opening ending"),
        verdicts=_words("evening story night choice"),
    ),
    Topic(
        nouns=("café", "bakery", "diner"),
        verbs=("chose", "picked", "tried", "found"),
        prepositions=("near", "in"),
        aspects=_words("coffee menu cake soup bread counter terrace service salad table"),
        verdicts=_words("meal place visit choice"),
    ),
    Topic(
        nouns=("phone", "tablet", "laptop"),
        verbs=("chose", "bought", "ordered", "used"),
        prepositions=("from",),
        aspects=_words("screen battery speaker keyboard design camera price display charger casing"),
        verdicts=_words("device purchase design choice"),
    ),
    Topic(
        nouns=("hotel", "hostel", "motel"),
        verbs=("chose", "booked", "tried", "found"),
        prepositions=("near", "in"),
        aspects=_words("room bed bathroom breakfast pool view balcony staff garden corridor"),
        verdicts=_words("stay place week choice"),
    ),
    Topic(
        nouns=("book", "memoir", "biography"),
        verbs=("chose", "bought", "borrowed", "read"),
        prepositions=("about", "from"),
        aspects=_words("plot cover language prose narrator dialogue ending opening pacing style"),
        verdicts=_words("story read purchase text"),
    ),
    Topic(
        nouns=("concert", "opera", "recital"),
        verbs=("chose", "picked", "attended", "heard"),
        prepositions=("in", "near"),
        aspects=_words("sound stage piano choir lighting tempo hall music seating violin"),
        verdicts=_words("evening night visit show"),
    ),
)


def openings(topic: Topic) -> tuple[Skeleton, ...]:
    """Prompts: a noun phrase that leaves the tone open."""
    thing = any_of(DETERMINERS) + any_of(topic.nouns)
    return (
        thing + any_of(NAMES) + any_of(topic.verbs),
        thing + any_of(topic.prepositions) + any_of(PLACES),
    )


def continuations(topic: Topic) -> tuple[Shape, ...]:
    """What may follow an opening of this topic."""
    one_sided = [
        shape
        for tone, words in ((Tone.POSITIVE, POSITIVE), (Tone.NEGATIVE, NEGATIVE))
        for shape in _one_sided(topic, tone, words)
    ]
    return (*one_sided, *_two_sided(topic, POSITIVE, NEGATIVE), *_two_sided(topic, NEGATIVE, POSITIVE))


@cache
def grammar_trigrams() -> frozenset[Trigram]:
    """Every word trigram of every review the grammar can write."""
    return trigrams(
        opening + shape.skeleton for topic in TOPICS for opening in openings(topic) for shape in continuations(topic)
    )


def well_formedness(prompt: str, answer: str) -> float:
    """Share of the answer's trigrams, read after its prompt, that the grammar can produce: 1 for every review of it."""
    return trigram_share(prompt, answer, known=grammar_trigrams())


def _one_sided(topic: Topic, tone: Tone, words: tuple[str, ...]) -> Iterator[Shape]:
    """Reviews whose clauses all agree."""
    two_sentences = ended(_predicate(words, 2), ".") + ended(_detail(topic, words, 1), ".")
    for weight, sentences in (
        (0.20, two_sentences),
        (0.15, ended(_predicate(words, 1), ".") + ended(_detail(topic, words, 2), ".")),
        (0.10, ended(_predicate(words, 2), ".") + ended(_detail(topic, words, 2), ".")),
        (0.10, ended(_predicate(words, 3), ".")),
    ):
        yield Shape(skeleton=sentences, tone=tone, weight=weight)
    joined = ended(_predicate(words, 1), ",") + fixed("and") + ended(_joined_detail(topic, words), ".")
    for verdict in _verdicts(topic, words):
        yield Shape(skeleton=ended(_predicate(words, 2), ".") + verdict, tone=tone, weight=0.05)
        yield Shape(skeleton=joined + verdict, tone=tone, weight=0.06)
        yield Shape(skeleton=two_sentences + verdict, tone=tone, weight=0.04)


def _two_sided(topic: Topic, first: tuple[str, ...], second: tuple[str, ...]) -> Iterator[Shape]:
    """Reviews that praise one side and fault the other."""
    contrast = ended(_predicate(first, 1), ",") + fixed("but") + ended(_joined_detail(topic, second), ".")
    for weight, sentences in (
        (0.30, contrast),
        (0.15, ended(_predicate(first, 2), ".") + ended(_detail(topic, second, 1), ".")),
        (0.15, ended(_predicate(first, 1), ".") + ended(_detail(topic, second, 2), ".")),
    ):
        yield Shape(skeleton=sentences, tone=Tone.MIXED, weight=weight)
    for verdict in (*_verdicts(topic, first), *_verdicts(topic, second)):
        yield Shape(skeleton=contrast + verdict, tone=Tone.MIXED, weight=0.07)


def _verdicts(topic: Topic, words: tuple[str, ...]) -> tuple[Skeleton, ...]:
    """Closing sentences; nothing may follow them."""
    return (
        ended(fixed("A") + new_of(words) + any_of(topic.verdicts), "."),
        ended(fixed("Overall, a") + new_of(words) + any_of(topic.verdicts), "."),
        ended(any_of(SPEAKERS) + any_of(OPINION_VERBS) + fixed("it") + new_of(words), "."),
    )


def _predicate(words: tuple[str, ...], count: int) -> Skeleton:
    return any_of(LINKING_VERBS) + _adjectives(words, count)


def _detail(topic: Topic, words: tuple[str, ...], count: int) -> Skeleton:
    return any_of(("The", "Its")) + any_of(topic.aspects) + any_of(LINKING_VERBS) + _adjectives(words, count)


def _joined_detail(topic: Topic, words: tuple[str, ...]) -> Skeleton:
    return any_of(("the", "its")) + any_of(topic.aspects) + any_of(LINKING_VERBS) + _adjectives(words, 1)


def _adjectives(words: tuple[str, ...], count: int) -> Skeleton:
    """A / A and A / A, A and A."""
    listed = [ended(new_of(words), ",") for _ in range(count - 2)]
    last_pair = new_of(words) + fixed("and") + new_of(words)
    return sum(listed, ()) + (last_pair if count > 1 else new_of(words))
