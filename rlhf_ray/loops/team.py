"""What the loops need from a worker team. The loops never learn whether workers are Ray actors or plain objects.

Whatever a method returns without Ref is small: numbers about a batch, never the batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rlhf_ray.learner.base import Loss, Update
from rlhf_ray.types import Completions, ExperienceRefs, Ref, Rollouts, Stats


class Trainee(Protocol):
    """One learner with the rows it learns from, as the supervised loop sees it."""

    def update(self, update: Update) -> Stats:
        """Optimizer steps, as planned, on training rows."""

    def evaluate(self, loss: Loss) -> Stats:
        """Validation on all held-out rows; nothing is trained."""

    def save(self, folder: Path) -> None:
        """Write weights and optimizer state."""


class PpoTeam(Protocol):
    """The worker team of the PPO loop. Update number `step` counts from 0: it is also the version of the policy."""

    def generate(self, step: int) -> Ref[Completions]:
        """Prompts of this step, answered by all generators; refused unless they hold exactly version `step`."""

    def assess(self, completions: Ref[Completions]) -> Ref[Rollouts]:
        """Policy log-probs, reference log-probs, values and rewards, side by side."""

    def estimate(self, rollouts: Ref[Rollouts], *, step: int, kl_coef: float) -> tuple[ExperienceRefs, Stats]:
        """Shape rewards, estimate and whiten advantages, write the rollout record."""

    def update(self, experience: ExperienceRefs, policy: Update, critic: Update) -> Stats:
        """Train policy and critic, side by side."""

    def sync(self, version: int) -> Stats:
        """Send the policy's weights to every generator; returns once all have confirmed version and content."""


class PpoWatch(Protocol):
    """What the loop has done around the algorithm: measure, check, keep."""

    def evaluate(self, step: int) -> Stats:
        """Answer the held-out prompts with the weights in force and compare with the start of the policy."""

    def self_check(self, step: int, *, kl_coef: float, policy: Update) -> Stats:
        """Measure the identities that hold before an update (see self_check.py)."""

    def start_clock(self) -> None:
        """An iteration begins."""

    def timings(self) -> Stats:
        """Seconds per phase since `start_clock`, and the wall time in which nothing computed."""

    def save(self, folder: Path) -> None:
        """Write policy and critic with their optimizers."""
