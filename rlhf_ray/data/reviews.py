"""The built-in corpus: short reviews written by a seeded grammar, split by their openings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from random import Random

from rlhf_ray.data.review_grammar import TOPICS, Shape, Tone, Topic, continuations, openings
from rlhf_ray.data.rows import Corpus, CorpusSizes, DemonstrationRow, PromptRow
from rlhf_ray.data.slots import fill
from rlhf_ray.errors import ConfigError

# VADER's negative adjectives weigh a little less than its positive ones: these shares put the mean score near 0.
TONE_SHARES = ((Tone.POSITIVE, 0.36), (Tone.NEGATIVE, 0.38), (Tone.MIXED, 0.26))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The beginning of a review and what it is about."""

    text: str
    topic: Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A whole review: the opening, and the rest with its leading space."""

    opening: str
    continuation: str
    tone: Tone


def all_openings() -> tuple[Opening, ...]:
    """Every opening the grammar can write, in a fixed order."""
    return tuple(
        Opening(text=" ".join(words), topic=topic)
        for topic in TOPICS
        for skeleton in openings(topic)
        for words in product(*(slot.pool for slot in skeleton))
    )


def write_reviews(choices: Iterable[Opening], rng: Random) -> list[Review]:
    """One review per opening, the tone drawn by TONE_SHARES."""
    shapes = {
        (topic, tone): [shape for shape in continuations(topic) if shape.tone is tone]
        for topic in TOPICS
        for tone in Tone
    }
    tones, shares = [tone for tone, _ in TONE_SHARES], [share for _, share in TONE_SHARES]
    reviews = []
    for opening in choices:
        tone = rng.choices(tones, weights=shares)[0]
        shape = _draw_shape(shapes[opening.topic, tone], rng)
        words = fill(shape.skeleton, rng)
        reviews.append(Review(opening=opening.text, continuation=" " + " ".join(words), tone=tone))
    return reviews


def build_corpus(sizes: CorpusSizes, *, seed: int) -> Corpus:
    """The same corpus for the same sizes and seed, on every machine.

    Raises ConfigError where the grammar has fewer openings than the prompts asked for.
    """
    rng = Random(seed)
    available = list(all_openings())
    wanted = sizes.prompts + sizes.held_out_prompts
    if wanted > len(available):
        raise ConfigError(f"{wanted} distinct prompts asked for; the built-in corpus has {len(available)} at most")
    rng.shuffle(available)
    held_out, training = available[: sizes.held_out_prompts], available[sizes.held_out_prompts : wanted]
    return Corpus(
        demonstrations=_demonstrations("train", rng.choices(training, k=sizes.demonstrations), rng),
        prompts=_prompts("train", training),
        held_out_prompts=_prompts("held-out", held_out),
        held_out_demonstrations=_demonstrations("held-out", _cycle(held_out, sizes.held_out_demonstrations), rng),
    )


def _draw_shape(shapes: list[Shape], rng: Random) -> Shape:
    return rng.choices(shapes, weights=[shape.weight for shape in shapes])[0]


def _cycle(items: list[Opening], count: int) -> list[Opening]:
    return [items[i % len(items)] for i in range(count)]


def _prompts(source: str, items: list[Opening]) -> tuple[PromptRow, ...]:
    return tuple(PromptRow(id=f"{source}-{i}", prompt=item.text) for i, item in enumerate(items))


def _demonstrations(source: str, items: list[Opening], rng: Random) -> tuple[DemonstrationRow, ...]:
    return tuple(
        DemonstrationRow(id=f"{source}-{i}", prompt=review.opening, response=review.continuation)
        for i, review in enumerate(write_reviews(items, rng))
    )
