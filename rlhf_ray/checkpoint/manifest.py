"""manifest.json: what a checkpoint must hold. It carries a digest of itself, so that a flipped digit is seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.errors import CheckpointError
from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.files.digest import FileEntry, json_digest

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of a checkpoint."""

    step: int
    files: Mapping[str, FileEntry]  # by relative name
    state: Mapping[str, Any]  # JSON


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Raises CheckpointError for a state that JSON cannot hold (NaN, arrays, objects), OSError for a full disk."""
    try:
        content = json.loads(json.dumps(asdict(manifest), allow_nan=False))  # what a reader will get back
        content["digest"] = json_digest(content)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the state of checkpoint {manifest.step} is not plain JSON: {error}") from error
    write_json_atomic(folder / MANIFEST, content)


def read_manifest(folder: Path) -> Manifest:
    """Raises CheckpointError where the manifest is missing, unreadable or changed."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digest = content.pop("digest")
        manifest = Manifest(
            step=content["step"],
            files={name: FileEntry(**entry) for name, entry in content["files"].items()},
            state=content["state"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read as a manifest: {error!r}") from error
    if json_digest(content) != digest:
        raise CheckpointError(f"{path} was changed after it was written: its content does not have its digest {digest}")
    return manifest
