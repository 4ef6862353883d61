"""The run that made an artifact, found from the artifact's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ArtifactError, DataError
from rlhf_ray.tracking.artifacts import CARD, Parent, read_artifact
from rlhf_ray.tracking.records import read_run
from rlhf_ray.tracking.sink import UsedArtifact


def producing_run(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Directory and run.json of the run that made an artifact; None where the folder lies elsewhere by now."""
    if folder.parent.name != "artifacts" or not (folder / CARD).is_file():
        return None
    run_dir = folder.parent.parent
    try:
        run = read_run(run_dir)
        made_here = run.get("id") == read_artifact(folder, verify=False).origin.run_id
    except (DataError, ArtifactError):
        return None
    return (run_dir, run) if made_here and isinstance(run.get("config"), dict) else None


def tracked_stage(run: Mapping[str, Any], stage: str) -> Mapping[str, Any]:
    """What a run's record tells of the tracker's run of a stage; nothing where there was none."""
    trackers = run.get("trackers")
    about = trackers.get(stage) if isinstance(trackers, Mapping) else None
    return about if isinstance(about, Mapping) else {}


def parent_folder(parent: Parent, folder: Path) -> Path | None:
    """Where a parent of the artifact in `folder` lies, if it is there."""
    if parent.path is None:
        return None
    path = (folder / parent.path).resolve()
    return path if path.is_dir() else None


def used_artifact(parent: Parent, folder: Path) -> UsedArtifact:
    """A parent of the artifact in `folder`, with what a tracker knows about it."""
    place, tracked = parent_folder(parent, folder), dict[str, Any]()
    produced = None if place is None else producing_run(place)
    if produced is not None and place is not None:
        tracked |= tracked_stage(produced[1], read_artifact(place, verify=False).origin.stage)
    return UsedArtifact(
        role=parent.role,
        name=parent.name,
        digest=parent.digest,
        tracked_run=tracked.get("run_id"),
        url=tracked.get("url"),
        tracked_artifact=tracked.get("artifact"),
    )
