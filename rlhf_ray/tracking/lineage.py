"""Where an artifact comes from: its parents, their parents, what was set on the way. The local files are the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlhf_ray.config.effective import effective_settings
from rlhf_ray.errors import ArtifactError
from rlhf_ray.files.digest import folder_digest
from rlhf_ray.tracking.artifacts import (
    CARD,
    LINEAGE,
    ArtifactCard,
    Decision,
    Parent,
    lineage_digests,
    read_artifact,
)
from rlhf_ray.tracking.producer import parent_folder, producing_run, tracked_stage

_SECTIONS = {"sft": "sft", "reward_model": "reward_model", "ppo": "algorithm"}
# keys that decide about a stage's result begin so
_DECIDING = {
    "sft": ("seed", "learning_rate", "model.", "data.", "learner.", "sft."),
    "reward_model": (
        *("seed", "learning_rate", "model.", "data.", "learner.", "generator.", "reward_model.", "reward."),
        *("algorithm.temperature", "algorithm.max_new_tokens"),
    ),
}
_ABSENT = "(not set)"


@dataclass(frozen=True, kw_only=True)
class Node:
    """An artifact, a directory without a card, or data."""

    role: str  # in what was made from it; empty at the root
    name: str
    digest: str
    folder: Path | None  # None: data, or not found
    card: ArtifactCard | None = None
    problem: str | None = None  # changed, or not found
    run_dir: Path | None = None  # of the run that made it, where that is known
    url: str | None = None  # the tracker's page of that run
    notes: tuple[str, ...] = ()  # settings a reader would not expect
    parents: tuple[Node, ...] = ()

    @property
    def stage(self) -> str:
        """That made it; empty where that is not known."""
        return "" if self.card is None else self.card.origin.stage

    def walk(self) -> Iterator[Node]:
        """This node and all its ancestors."""
        yield self
        for parent in self.parents:
            yield from parent.walk()


def lineage_of(path: Path, *, verify: bool) -> Node:
    """The ancestry of an artifact's directory, or of a run's last result. Raises ArtifactError where there is none."""
    reader = LineageReader(verify=verify)
    if (path / CARD).is_file():
        return reader.artifact(path.resolve())
    results = [file.parent for file in sorted((path / "artifacts").glob(f"[!.]*/{CARD}"))]
    if not results:
        raise ArtifactError(f"{path} is no artifact (no {CARD} in it) and no run with a result (no artifacts/*/{CARD})")
    cards = {folder: read_artifact(folder, verify=False) for folder in results}
    used = {parent.digest for card in cards.values() for parent in card.parents}
    last = [folder for folder, card in cards.items() if card.digest not in used]
    return reader.artifact((last or results)[-1].resolve())


class LineageReader:
    """Follows parents from folder to folder."""

    def __init__(self, *, verify: bool) -> None:
        """`verify`: read every file and compare it with its card."""
        self._verify = verify
        self._open: list[Path] = []  # from the root to where we are

    def artifact(self, folder: Path) -> Node:
        """A folder with a card, and all it was made from. Raises ArtifactError where its card cannot be read.

        What is wrong further up is a problem of the node that it is about.
        """
        card = read_artifact(folder, verify=False)
        produced = producing_run(folder)
        config = {} if produced is None else produced[1]["config"]
        stage = card.origin.stage
        return Node(
            role="",
            name=card.id.name,
            digest=card.digest,
            folder=folder,
            card=card,
            problem=self._damage(folder) or recorded_otherwise(card, run_dir=None if produced is None else produced[0]),
            run_dir=None if produced is None else produced[0],
            url=None if produced is None else tracked_stage(produced[1], stage).get("url"),
            notes=tuple(own_rate_notes(config, stage)),
            parents=self.parents(card.parents, folder, config=config),
        )

    def parents(self, parents: Sequence[Parent], folder: Path, *, config: Mapping[str, Any]) -> tuple[Node, ...]:
        """What the artifact in `folder`, made with this config, was made from.

        Raises ArtifactError where that is itself.
        """
        if folder in self._open:
            raise ArtifactError(f"{folder} is its own ancestor: one of the cards on the way was changed")
        self._open.append(folder)
        nodes = tuple(self._parent(parent, folder, config) for parent in parents)
        self._open.pop()
        return nodes

    def _parent(self, parent: Parent, folder: Path, config: Mapping[str, Any]) -> Node:
        place = parent_folder(parent, folder)
        if place is None or not (place / CARD).is_file():
            problem = self._loss(parent, place)
            return Node(role=parent.role, name=parent.name, digest=parent.digest, folder=place, problem=problem)
        try:
            node, produced = self.artifact(place), producing_run(place)
        except ArtifactError as error:
            return Node(role=parent.role, name=parent.name, digest=parent.digest, folder=place, problem=str(error))
        theirs = {} if produced is None else produced[1]["config"]
        problem = node.problem
        if node.digest != parent.digest:
            problem = f"another version ({short(node.digest)}) than was used ({short(parent.digest)})"
        notes = changed_settings(config, theirs, stage=node.stage)
        return replace(node, role=parent.role, problem=problem, notes=(*node.notes, *notes))

    def _loss(self, parent: Parent, place: Path | None) -> str | None:
        """What is wrong with a parent that has no card."""
        if parent.role == "data":
            return None
        if place is None:
            return f"not found at {parent.path}"
        if self._verify and folder_digest(place, exclude=()) != parent.digest:
            return f"the files in {place} are not those that were used"
        return None

    def _damage(self, folder: Path) -> str | None:
        if self._verify:
            try:
                read_artifact(folder, verify=True)
            except ArtifactError as error:
                return str(error)
        return None


def own_rate_notes(config: Mapping[str, Any], stage: str) -> Iterator[str]:
    """A learning rate of the stage's own, which the top-level one does not reach."""
    settings, key = effective_settings(config), f"{_SECTIONS.get(stage)}.learning_rate"
    own, top = settings.get(key), settings.get("learning_rate")
    if own not in (None, top):
        yield f"{key}={own}: the top-level learning_rate={top} is not used"


def recorded_otherwise(card: ArtifactCard, *, run_dir: Path | None) -> str | None:
    """Where an artifact as a whole is not the one that its run has in lineage.json."""
    if run_dir is None:
        return None
    try:
        recorded = lineage_digests(run_dir).get(card.id.name, card.digest)
    except ArtifactError as error:
        return str(error)
    if recorded == card.digest:
        return None
    return f"another version ({short(card.digest)}) than {run_dir / LINEAGE} has ({short(recorded)})"


def changed_settings(here: Mapping[str, Any] | None, there: Mapping[str, Any], *, stage: str) -> Iterator[str]:
    """What decides about a stage's result, and was not the same in the run that made it and in the one that used it."""
    if not here or not there:
        return
    mine, its = effective_settings(here), effective_settings(there)
    for key in sorted(mine.keys() | its.keys()):
        if key.startswith(_DECIDING.get(stage, "")) and not key.endswith(".path"):
            own, used = its.get(key, _ABSENT), mine.get(key, _ABSENT)
            if own != used:
                yield f"{key}={own} here, {used} in the run that used it"


def short(digest: str) -> str:
    """Enough of a digest to tell it apart."""
    return digest[:19]


def headline(card: ArtifactCard) -> list[str]:
    """The headline metrics as words."""
    return [f"{name} {value:.4g}" for name, value in card.metrics.items() if value is not None]


def decision_words(decision: Decision) -> str:
    """The candidates, and which was the best."""
    tried = ", ".join(
        f"step {one.step} " + " ".join("?" if value is None else f"{value:.4g}" for value in one.metrics.values())
        for one in decision.candidates
    )
    return f"candidates: {tried}; best: step {decision.chosen} ({decision.rule})"
