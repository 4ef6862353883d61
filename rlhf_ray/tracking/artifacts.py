"""artifact.json: what an artifact is and what it came from. lineage.json: the artifacts a run made and used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ArtifactError
from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.files.digest import FileEntry, damages, entries_digest, folder_digest, folder_entries

CARD, LINEAGE = "artifact.json", "lineage.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """Names exact content."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Something an artifact was made from."""

    role: str  # policy, reward_model, base, data
    name: str
    digest: str  # of its content as it was used
    path: str | None  # where it lay: relative to the artifact's folder where both are in one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A state of the model that could have become the artifact."""

    step: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why this state and no other."""

    rule: str
    chosen: int  # step
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactId:
    """What an artifact is."""

    kind: str  # policy, reward-model, data, ...
    name: str  # its folder under artifacts/
    version: int  # the training step it was saved at


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an artifact comes from."""

    run_id: str
    stage: str
    config_digest: str
    data_fingerprint: str
    git_commit: str | None
    seed: int
    inputs: str  # digest over all that it follows from: parents, settings, seed, code


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCard:
    """Everything in artifact.json."""

    id: ArtifactId
    digest: str  # over names and bytes of all other files
    origin: Origin
    parents: tuple[Parent, ...]
    metrics: Mapping[str, float | None]  # the headline figures
    aliases: tuple[str, ...]  # latest; best, where it was the best of its candidates
    decision: Decision | None
    files: Mapping[str, FileEntry]

    @property
    def ref(self) -> ArtifactRef:
        """How other artifacts name this one."""
        return ArtifactRef(name=self.id.name, digest=self.digest)

    @property
    def content(self) -> dict[str, Any]:
        """As artifact.json has it."""
        flat: dict[str, Any] = asdict(self)
        return {**flat.pop("id"), **flat.pop("origin"), **flat}


def write_artifact_card(
    folder: Path,
    *,
    identity: ArtifactId,
    origin: Origin,
    parents: Sequence[Parent],
    metrics: Mapping[str, float | None],
    decision: Decision | None,
) -> ArtifactCard:
    """Digest a finished folder and describe it. Raises ValueError for a metric that is not finite."""
    files = folder_entries(folder, exclude={CARD})
    is_best = decision is not None and decision.chosen == identity.version
    card = ArtifactCard(
        id=identity,
        digest=entries_digest(files),
        origin=origin,
        parents=tuple(parents),
        metrics=dict(metrics),
        aliases=("latest", "best") if is_best else ("latest",),
        decision=decision,
        files=files,
    )
    write_json_atomic(folder / CARD, card.content)
    return card


def read_artifact(folder: Path, *, verify: bool) -> ArtifactCard:
    """The card. Raises ArtifactError where it is missing or unreadable or, with `verify`, where a file differs."""
    path = folder / CARD
    try:
        card = _parse_card(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        words = f"{path} cannot be read as an artifact's card ({type(error).__name__}: {error})"
        raise ArtifactError(words) from error
    if verify:
        _check_content(folder, card)
    return card


def artifact_ref(folder: Path, *, allow_changed: bool) -> ArtifactRef:
    """Name a folder's exact content as it is now, whether it has a card or not.

    Raises ArtifactError where it is not what its card says, unless that is allowed.
    """
    if not (folder / CARD).exists():
        return ArtifactRef(name=folder.name, digest=folder_digest(folder, exclude=()))
    if not allow_changed:
        return read_artifact(folder, verify=True).ref
    name = read_artifact(folder, verify=False).id.name
    return ArtifactRef(name=name, digest=folder_digest(folder, exclude={CARD}))


def lineage_digests(run_dir: Path) -> dict[str, str]:
    """What a run made, by name, as its lineage.json has it; nothing where there is none yet.

    Raises ArtifactError where it cannot be read.
    """
    path = run_dir / LINEAGE
    if not path.exists():
        return {}
    try:
        made = json.loads(path.read_text(encoding="utf-8"))["made"]
        return {str(one["name"]): str(one["digest"]) for one in made}
    except (OSError, ValueError, KeyError, TypeError) as error:
        words = f"{path} cannot be read ({type(error).__name__}: {error}); resume={run_dir} writes it anew"
        raise ArtifactError(words) from error


def write_lineage(run_dir: Path, *, run_id: str, made: Sequence[ArtifactCard], used: Sequence[Parent]) -> None:
    """lineage.json: the artifacts a run made, and what it was given, data included."""
    write_json_atomic(
        run_dir / LINEAGE,
        {
            "run": run_id,
            "made": [
                asdict(card.id)
                | {
                    "digest": card.digest,
                    "stage": card.origin.stage,
                    "aliases": list(card.aliases),
                    "parents": [asdict(parent) for parent in card.parents],
                }
                for card in made
            ],
            "used": [asdict(parent) for parent in used],
        },
    )


def parse_decision(content: Mapping[str, Any] | None) -> Decision | None:
    """A decision as JSON has it."""
    if content is None:
        return None
    candidates = tuple(Candidate(**candidate) for candidate in content["candidates"])
    return Decision(rule=content["rule"], chosen=content["chosen"], candidates=candidates)


def _parse_card(content: dict[str, Any]) -> ArtifactCard:
    card = ArtifactCard(
        id=ArtifactId(**{field.name: content[field.name] for field in fields(ArtifactId)}),
        digest=content["digest"],
        origin=Origin(**{field.name: content[field.name] for field in fields(Origin)}),
        parents=tuple(Parent(**parent) for parent in content["parents"]),
        metrics=content["metrics"],
        aliases=tuple(content["aliases"]),
        decision=parse_decision(content["decision"]),
        files={name: FileEntry(**entry) for name, entry in content["files"].items()},
    )
    _require_types(card)
    return card


def _require_types(card: ArtifactCard) -> None:
    """TypeError where something is no text or no number that has to be one."""
    texts = [card.id.kind, card.id.name, card.digest, card.origin.run_id, card.origin.stage, *card.aliases]
    for parent in card.parents:
        texts += [parent.role, parent.name, parent.digest, "" if parent.path is None else parent.path]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name, a path or a digest is no text")
    measured = [card.metrics, *(one.metrics for one in (() if card.decision is None else card.decision.candidates))]
    if not all(isinstance(value, int | float | None) for metrics in measured for value in metrics.values()):
        raise TypeError("a metric is no number")


def _check_content(folder: Path, card: ArtifactCard) -> None:
    found = damages(folder, card.files)
    found += [f"{name} was added" for name in folder_entries(folder, exclude={CARD, *card.files})]
    if entries_digest(card.files) != card.digest:
        found.append(f"{CARD} was changed: its files do not have its digest {card.digest}")
    if found:
        raise ArtifactError(f"{folder} is not what its {CARD} says: {'; '.join(found)}")
