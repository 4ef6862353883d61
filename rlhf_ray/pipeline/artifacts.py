"""A stage's result: written whole, described, and only then given its name."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.config.digest import config_digest
from rlhf_ray.files.atomic import replace_folder
from rlhf_ray.pipeline.context import Context
from rlhf_ray.tracking.artifacts import (
    CARD,
    ArtifactCard,
    ArtifactId,
    ArtifactRef,
    Origin,
    artifact_ref,
    read_artifact,
    write_artifact_card,
)


def finished(folder: Path) -> bool:
    """Whether a stage has already given this result."""
    return (folder / CARD).is_file()


def export(
    ctx: Context,
    worker: Remote[LearnerWorker],
    *,
    identity: ArtifactId,
    used: dict[str, Path],
    headline: dict[str, float | None],
) -> Path:
    """Write the worker's model as artifacts/<name>. `used` are the directories it was made from, by role."""
    final = ctx.artifact(identity.name)
    unfinished = final.with_name(f".{identity.name}")
    base = ctx.opened.base_model
    ctx.opened.team.runtime.gather([ctx.opened.team.runtime.call(worker, LearnerWorker.export, unfinished, base)])
    write_artifact_card(
        unfinished,
        identity=identity,
        origin=origin(ctx),
        parents=[artifact_ref(path) for path in used.values()],
        metrics=headline,
    )
    replace_folder(unfinished, final)
    return final


def origin(ctx: Context) -> Origin:
    """Where this run's artifacts come from."""
    return Origin(
        run_id=ctx.records.run_id,
        config_digest=config_digest(ctx.config),
        data_fingerprint=ctx.opened.rows.fingerprint,
        git_commit=ctx.records.git_commit,
        seed=ctx.config.seed,
    )


def made_by(ctx: Context, names: list[str]) -> list[ArtifactCard]:
    """The cards of the artifacts of this run that are there."""
    return [read_artifact(ctx.artifact(name), verify=False) for name in names if finished(ctx.artifact(name))]


def used_by(paths: dict[str, Path]) -> dict[str, tuple[Path, ArtifactRef]]:
    """Directories with the digest of their content."""
    return {role: (path, artifact_ref(path)) for role, path in paths.items()}
