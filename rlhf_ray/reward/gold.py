"""The gold scorers of the built-in jobs. Training never sees them."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from rlhf_ray.data.review_grammar import grammar_trigrams
from rlhf_ray.data.slots import trigram_share
from rlhf_ray.types import Completions, RewardPart, Rewards

_WORD = re.compile(r"[\w']+")


class GoldScorer:
    """Reviews: VADER compound in [-1, 1] (Hutto and Gilbert 2014) x share of grammatical trigrams in [0, 1].

    VADER alone gives word salad of nice words 0.98; the second factor takes that away.
    """

    def __init__(self) -> None:
        self._sentiment = SentimentIntensityAnalyzer()
        self._trigrams = grammar_trigrams()

    def score(self, completions: Completions) -> Rewards:
        """One score per answer; parts "vader" and "well_formed" hold the factors."""
        vader = _vader(self._sentiment, completions)
        well_formed = np.array(
            [
                trigram_share(prompt, answer, known=self._trigrams)
                for prompt, answer in zip(completions.prompts.texts, completions.texts, strict=True)
            ],
            dtype=float,
        )
        return _product(vader=vader, well_formed=well_formed)


class SentenceScorer:
    """Free text: VADER compound x different words / words. There is no grammar to hold free text against, so the
    second factor only takes away what repeating nice words would gain.
    """

    def __init__(self) -> None:
        self._sentiment = SentimentIntensityAnalyzer()

    def score(self, completions: Completions) -> Rewards:
        """One score per answer; parts "vader" and "varied" hold the factors."""
        varied = np.array([_varied(text) for text in completions.texts], dtype=float)
        return _product(vader=_vader(self._sentiment, completions), varied=varied)


def _vader(sentiment: SentimentIntensityAnalyzer, completions: Completions) -> NDArray[np.float64]:
    return np.array([sentiment.polarity_scores(text)["compound"] for text in completions.texts], dtype=float)


def _varied(text: str) -> float:
    """Different words / words; 0 without words."""
    words = _WORD.findall(text.lower())
    return len(set(words)) / len(words) if words else 0.0


def _product(**factors: NDArray[np.float64]) -> Rewards:
    return Rewards(
        scores=np.prod(list(factors.values()), axis=0),
        parts=tuple(RewardPart(name=name, values=values) for name, values in factors.items()),
    )
