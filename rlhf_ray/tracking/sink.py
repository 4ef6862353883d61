"""What a tracker is told, whichever it is. Only the driver talks to trackers; local files are written in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlhf_ray.tracking.artifacts import ArtifactCard
from rlhf_ray.types import Histogram

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One stage of one job, for which a tracker opens one run."""

    stage: str
    pipeline: str  # the id of the job: its stages form a group
    name: str
    folder: Path  # the run directory
    config: Mapping[str, Any]  # rules.py keeps secrets out of settings
    used: tuple[UsedArtifact, ...]
    tags: tuple[str, ...]

    @property
    def axis(self) -> str:
        """The name of the x-axis of the stage's charts."""
        return "iteration" if self.stage == "ppo" else "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedArtifact:
    """An input of a stage, and the tracker's run that made it, where one did."""

    role: str
    name: str
    digest: str
    tracked_run: str | None  # the tracker's id of the stage that made it
    url: str | None
    tracked_artifact: str | None  # the tracker's own name of it, with its version


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeArtifact:
    """The result of a stage."""

    folder: Path
    card: ArtifactCard

    @property
    def about(self) -> dict[str, Any]:
        """What a tracker keeps of it: the card without the list of files, and where it lies."""
        return {name: value for name, value in self.card.content.items() if name != "files"} | {
            "path": str(self.folder)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table of text and numbers."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that a person should know now."""

    title: str
    text: str
    level: str  # info, warning, error


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a stage ended."""

    status: str  # finished, failed, preempted
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """How a tracker calls a stage's run."""

    backend: str
    run_id: str
    url: str | None = None
    artifact: str | None = None  # its name of the stage's result


class Sink(Protocol):
    """A tracker's run of one stage. A step that is lower than the one before takes back what followed it."""

    def metrics(self, step: int, values: Mapping[str, float | str]) -> None:
        """Finite numbers by metric name, and flags (text) for those that are not finite."""

    def show(self, step: int, item: Sheet | Histogram, *, name: str) -> None:
        """A table, or a distribution."""

    def alert(self, alert: Alert) -> None:
        """Tell the run's owner."""

    def made(self, made: MadeArtifact) -> None:
        """Declare the stage's result."""

    def close(self, end: End) -> None:
        """Nothing follows."""

    def tracked(self) -> Tracked | None:
        """How the tracker calls this run, once it is known."""


def recordable(values: Mapping[str, Any]) -> dict[str, float | str]:
    """Without what is undefined: a number that is not finite is left to its flag."""
    return {name: value for name, value in values.items() if value is not None}
