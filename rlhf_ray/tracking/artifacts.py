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

CARD = "artifact.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """Names exact content."""

    name: str
    digest: str


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
    config_digest: str
    data_fingerprint: str
    git_commit: str | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCard:
    """Everything in artifact.json."""

    id: ArtifactId
    digest: str  # over names and bytes of all other files
    origin: Origin
    parents: tuple[ArtifactRef, ...]
    metrics: Mapping[str, float | None]  # the headline figures
    files: Mapping[str, FileEntry]

    @property
    def ref(self) -> ArtifactRef:
        """How other artifacts name this one."""
        return ArtifactRef(name=self.id.name, digest=self.digest)


def write_artifact_card(
    folder: Path,
    *,
    identity: ArtifactId,
    origin: Origin,
    parents: Sequence[ArtifactRef],
    metrics: Mapping[str, float | None],
) -> ArtifactCard:
    """Digest a finished folder and describe it. Raises ValueError for a metric that is not finite."""
    files = folder_entries(folder, exclude={CARD})
    card = ArtifactCard(
        id=identity,
        digest=entries_digest(files),
        origin=origin,
        parents=tuple(parents),
        metrics=dict(metrics),
        files=files,
    )
    flat = asdict(card)
    write_json_atomic(folder / CARD, flat.pop("id") | flat.pop("origin") | flat)
    return card


def read_artifact(folder: Path, *, verify: bool) -> ArtifactCard:
    """The card. Raises ArtifactError where it is missing or unreadable or, with `verify`, where a file differs."""
    path = folder / CARD
    try:
        card = _parse_card(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} cannot be read as an artifact's card: {error!r}") from error
    if verify:
        _check_content(folder, card)
    return card


def artifact_ref(folder: Path) -> ArtifactRef:
    """Name a folder's exact content as it is now, whether it has a card or not. Raises ArtifactError for damage."""
    if (folder / CARD).exists():
        return read_artifact(folder, verify=True).ref
    return ArtifactRef(name=folder.name, digest=folder_digest(folder, exclude=()))


def write_lineage(
    run_dir: Path, *, run_id: str, made: Sequence[ArtifactCard], used: Mapping[str, tuple[Path, ArtifactRef]]
) -> None:
    """lineage.json: the artifacts a run made, and those it used by the role they had in it."""
    write_json_atomic(
        run_dir / "lineage.json",
        {
            "run": run_id,
            "made": [
                asdict(card.id) | {"digest": card.digest, "parents": [asdict(parent) for parent in card.parents]}
                for card in made
            ],
            "used": [{"role": role, "path": str(path)} | asdict(ref) for role, (path, ref) in used.items()],
        },
    )


def _parse_card(content: dict[str, Any]) -> ArtifactCard:
    return ArtifactCard(
        id=ArtifactId(**{field.name: content[field.name] for field in fields(ArtifactId)}),
        digest=content["digest"],
        origin=Origin(**{field.name: content[field.name] for field in fields(Origin)}),
        parents=tuple(ArtifactRef(**parent) for parent in content["parents"]),
        metrics=content["metrics"],
        files={name: FileEntry(**entry) for name, entry in content["files"].items()},
    )


def _check_content(folder: Path, card: ArtifactCard) -> None:
    found = damages(folder, card.files)
    found += [f"{name} was added" for name in folder_entries(folder, exclude={CARD, *card.files})]
    if entries_digest(card.files) != card.digest:
        found.append(f"{CARD} was changed: its files do not have its digest {card.digest}")
    if found:
        raise ArtifactError(f"{folder} is not what its {CARD} says: {'; '.join(found)}")
