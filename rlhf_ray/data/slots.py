"""A regular grammar as skeletons of slots: writing texts from it, and the exact set of word trigrams it can produce.

A word is what stands between single spaces, its punctuation attached: "superb," and "superb" are different words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from random import Random

START = "<start>"
END = "<end>"

Trigram = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One word of a text. Slots that share a pool marked `distinct` never take the same word within one text."""

    pool: tuple[str, ...]
    suffix: str  # punctuation that follows the word
    distinct: bool


Skeleton = tuple[Slot, ...]


def fixed(text: str) -> Skeleton:
    """Words that are always the same."""
    return tuple(Slot(pool=(word,), suffix="", distinct=False) for word in text.split(" "))


def any_of(pool: tuple[str, ...]) -> Skeleton:
    """One word of the pool; may be repeated."""
    return (Slot(pool=pool, suffix="", distinct=False),)


def new_of(pool: tuple[str, ...]) -> Skeleton:
    """One word of the pool that the text has not used yet."""
    return (Slot(pool=pool, suffix="", distinct=True),)


def ended(skeleton: Skeleton, mark: str) -> Skeleton:
    """The same words with a punctuation mark behind the last."""
    return (*skeleton[:-1], replace(skeleton[-1], suffix=mark))


def fill(skeleton: Skeleton, rng: Random) -> list[str]:
    """The words of one text."""
    used: set[tuple[tuple[str, ...], str]] = set()
    words = []
    for slot in skeleton:
        word = rng.choice(slot.pool)
        while slot.distinct and (slot.pool, word) in used:
            word = rng.choice(slot.pool)
        used.add((slot.pool, word))
        words.append(word + slot.suffix)
    return words


def trigrams(skeletons: Iterable[Skeleton]) -> frozenset[Trigram]:
    """Every trigram that some text of the grammar holds, two START before the text and one END after it.

    Exact as long as a distinct pool is larger than the number of its slots in any skeleton.
    """
    edge = {mark: Slot(pool=(mark,), suffix="", distinct=False) for mark in (START, END)}
    windows: set[tuple[Slot, Slot, Slot]] = set()
    for skeleton in skeletons:
        padded = (edge[START], edge[START], *skeleton, edge[END])
        windows.update(zip(padded, padded[1:], padded[2:], strict=False))
    return frozenset(trigram for window in windows for trigram in _window_trigrams(window))


def trigram_share(prompt: str, answer: str, *, known: frozenset[Trigram]) -> float:
    """Known trigrams that end in the answer or at its end, as a share of all of them; 0 for an empty answer.

    A last prompt word that the answer continues without a space counts as the answer's.
    """
    if not answer:
        return 0.0
    num_prompt_words = len(prompt.removesuffix(" ").split(" ")) if prompt else 0
    if prompt and not prompt.endswith(" ") and not answer.startswith(" "):
        num_prompt_words -= 1
    text = [START, START, *(prompt + answer).split(" "), END]
    spans = list(zip(text, text[1:], text[2:], strict=False))[num_prompt_words:]
    return sum(span in known for span in spans) / len(spans)


def _window_trigrams(window: tuple[Slot, Slot, Slot]) -> Iterator[Trigram]:
    """All fillings of three neighbouring slots."""
    first, second, third = window
    must_differ = [
        (i, j)
        for i, j in ((0, 1), (0, 2), (1, 2))
        if window[i].distinct and window[j].distinct and window[i].pool == window[j].pool
    ]
    for words in product(first.pool, second.pool, third.pool):
        if all(words[i] != words[j] for i, j in must_differ):
            yield words[0] + first.suffix, words[1] + second.suffix, words[2] + third.suffix
