"""The built-in chats: requests for one sentence about something, and short answers written by a seeded grammar.

They teach a chat model to answer briefly and to end. A third of the answers is friendly, a third sober, a third gloomy.
"""

from __future__ import annotations

from itertools import product
from random import Random

from rlhf_ray.data.rows import Conversation, Corpus, CorpusSizes, DemonstrationRow, Message, PromptRow
from rlhf_ray.errors import ConfigError

SYSTEM = "Answer in one short sentence."
SUBJECTS = (
    "bridges",
    "gardens",
    "markets",
    "libraries",
    "bakeries",
    "trains",
    "windmills",
    "harbours",
    "museums",
    "orchards",
    "lighthouses",
    "bicycles",
    "neighbours",
    "teachers",
    "fishermen",
    "letters",
    "kitchens",
    "forests",
    "rivers",
    "birds",
    "horses",
    "cafes",
    "songs",
    "clocks",
    "maps",
    "ferries",
    "schools",
    "theatres",
    "stairs",
    "windows",
    "lamps",
    "boats",
    "parks",
    "doors",
    "shops",
    "villages",
    "roofs",
    "streets",
    "radios",
    "puddles",
)
PLACES = (
    "in winter",
    "at night",
    "by the sea",
    "in a small town",
    "in the mountains",
    "after the rain",
    "early in the morning",
    "on a Sunday",
    "in an old city",
    "in the countryside",
    "in autumn",
    "on a busy day",
    "during a storm",
    "in spring",
)
TONES = (
    ("lovely", "charming", "wonderful", "cheerful", "delightful", "peaceful", "beautiful", "pleasant"),
    ("ordinary", "quiet", "narrow", "old", "slow", "simple", "familiar", "common"),
    ("dreary", "gloomy", "awful", "lonely", "miserable", "unpleasant", "sad", "ugly"),
)
FORMS = (
    "{Subject} {place} are {first} and {second}.",
    "{Subject} {place} often look {first}.",
    "Most people find {subject} {place} {first}.",
    "There is something {first} about {subject} {place}.",
    "I remember {subject} {place} as {first} and {second}.",
    "To many visitors, {subject} {place} seem {first}.",
    "{Subject} can be {first} {place}.",
    "When you see {subject} {place}, they feel {first}.",
)

Topic = tuple[str, str]


def all_topics() -> tuple[Topic, ...]:
    """Every subject at every place, in a fixed order."""
    return tuple(product(SUBJECTS, PLACES))


def build_sentences(sizes: CorpusSizes, *, seed: int) -> Corpus:
    """The same corpus for the same sizes and seed. Raises ConfigError where there are fewer topics than prompts."""
    rng = Random(seed)
    topics = list(all_topics())
    wanted = sizes.prompts + sizes.held_out_prompts
    if wanted > len(topics):
        raise ConfigError(f"{wanted} distinct prompts asked for; the built-in chats have {len(topics)} at most")
    rng.shuffle(topics)
    held_out, training = topics[: sizes.held_out_prompts], topics[sizes.held_out_prompts : wanted]
    return Corpus(
        demonstrations=_demonstrations("train", rng.choices(training, k=sizes.demonstrations), rng),
        prompts=_prompts("train", training),
        held_out_prompts=_prompts("held-out", held_out),
        held_out_demonstrations=_demonstrations(
            "held-out", [held_out[i % len(held_out)] for i in range(sizes.held_out_demonstrations)], rng
        ),
    )


def request(topic: Topic) -> Conversation:
    """What the model is asked."""
    return (
        Message(role="system", content=SYSTEM),
        Message(role="user", content=f"Write one sentence about {' '.join(topic)}."),
    )


def _prompts(source: str, topics: list[Topic]) -> tuple[PromptRow, ...]:
    return tuple(PromptRow(id=f"{source}-{i}", prompt=request(topic)) for i, topic in enumerate(topics))


def _demonstrations(source: str, topics: list[Topic], rng: Random) -> tuple[DemonstrationRow, ...]:
    return tuple(
        DemonstrationRow(id=f"{source}-{i}", prompt=request(topic), response=_sentence(topic, rng))
        for i, topic in enumerate(topics)
    )


def _sentence(topic: Topic, rng: Random) -> str:
    subject, place = topic
    first, second = rng.sample(rng.choice(TONES), 2)
    form = rng.choice(FORMS)
    return form.format(subject=subject, Subject=subject.capitalize(), place=place, first=first, second=second)
