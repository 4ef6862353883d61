"""The protocol every scorer follows."""

from __future__ import annotations

from typing import Protocol

from rlhf_ray.types import Completions, Rewards


class Scorer(Protocol):
    """Judges answers."""

    def score(self, completions: Completions) -> Rewards:
        """One finite score per answer, in order, before any end-of-answer rule."""
