"""The gold scorer of the built-in job: sentiment times well-formedness. Training never sees it."""

from __future__ import annotations

import numpy as np
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from rlhf_ray.data.review_grammar import grammar_trigrams
from rlhf_ray.data.slots import trigram_share
from rlhf_ray.types import Completions, RewardPart, Rewards


class GoldScorer:
    """gold = VADER compound in [-1, 1] (Hutto and Gilbert 2014) x share of grammatical trigrams in [0, 1].

    VADER alone gives word salad of nice words 0.98; the second factor takes that away.
    """

    def __init__(self) -> None:
        self._sentiment = SentimentIntensityAnalyzer()
        self._trigrams = grammar_trigrams()

    def score(self, completions: Completions) -> Rewards:
        """One score per answer; parts "vader" and "well_formed" hold the factors."""
        vader = np.array([self._sentiment.polarity_scores(text)["compound"] for text in completions.texts], dtype=float)
        well_formed = np.array(
            [
                trigram_share(prompt, answer, known=self._trigrams)
                for prompt, answer in zip(completions.prompts.texts, completions.texts, strict=True)
            ],
            dtype=float,
        )
        return Rewards(
            scores=vader * well_formed,
            parts=(RewardPart(name="vader", values=vader), RewardPart(name="well_formed", values=well_formed)),
        )
