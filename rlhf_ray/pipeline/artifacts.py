"""A stage's result: written whole, described, and only then given its name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.config.digest import config_digest
from rlhf_ray.files.atomic import replace_folder
from rlhf_ray.pipeline.context import Context
from rlhf_ray.pipeline.reuse import code_digest, find_result, inputs_digest
from rlhf_ray.tracking.artifacts import (
    CARD,
    ArtifactCard,
    ArtifactId,
    Decision,
    Origin,
    Parent,
    artifact_ref,
    read_artifact,
    write_artifact_card,
)
from rlhf_ray.tracking.lineage import LineageReader, Node, own_rate_notes
from rlhf_ray.tracking.model_card import write_model_card


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a stage hands over besides the model."""

    stage: str
    identity: ArtifactId
    made_from: Sequence[Parent]
    headline: Mapping[str, float | None]
    decision: Decision | None


def earlier_result(ctx: Context, stage: str, name: str, given: Sequence[Parent]) -> Path | None:
    """The result the stage has already given in this run or, where that is wanted, in another one of the same inputs.

    Raises ArtifactError where a byte of this run's own result was changed since.
    """
    folder = ctx.artifact(name)
    if (folder / CARD).is_file():
        artifact_ref(folder, allow_changed=ctx.config.tracking.allow_changed)
        return folder
    if ctx.config.reuse != "on":
        return None
    found = find_result(ctx.run_dir.parent, name, inputs=_inputs(ctx, stage, given))
    if found is not None:
        ctx.display.message(f"{stage}: {found} was made from the same inputs and is taken")
    return found


def made_from(ctx: Context, used: Mapping[str, Path]) -> tuple[Parent, ...]:
    """What a stage is given: directories by role, with the digest of their content as it is now, and the data.

    Raises ArtifactError for a directory that is not what its card says.
    """
    parents = [_parent(ctx, role, path) for role, path in used.items()]
    files = ctx.config.data.prompts or ctx.config.data.demonstrations or ctx.config.data.preferences
    name = ctx.config.data.built_in if files is None else Path(files).name
    return (*parents, Parent(role="data", name=name, digest=ctx.opened.rows.fingerprint, path=files))


def export(ctx: Context, worker: Remote[LearnerWorker], result: Result) -> Path:
    """Write the worker's model as artifacts/<name>."""
    final = ctx.artifact(result.identity.name)
    unfinished = final.with_name(f".{result.identity.name}")
    base = ctx.opened.base_model
    ctx.opened.team.runtime.gather([ctx.opened.team.runtime.call(worker, LearnerWorker.export, unfinished, base)])
    describe = partial(
        write_artifact_card,
        unfinished,
        identity=result.identity,
        origin=origin(ctx, result.stage, result.made_from),
        parents=result.made_from,
        metrics=result.headline,
        decision=result.decision,
    )
    write_model_card(unfinished, node_of(ctx, describe()))
    card = describe()  # with the model card as one of its files
    replace_folder(unfinished, final)
    ctx.tracker.made(final, card)
    return final


def node_of(ctx: Context, card: ArtifactCard) -> Node:
    """The artifact that is being written, with its ancestors."""
    config = asdict(ctx.config)
    return Node(
        role="",
        name=card.id.name,
        digest=card.digest,
        folder=None,
        card=card,
        notes=tuple(own_rate_notes(config, card.origin.stage)),
        parents=LineageReader(verify=False).parents(card.parents, ctx.artifact(card.id.name), config=config),
    )


def origin(ctx: Context, stage: str, given: Sequence[Parent]) -> Origin:
    """Where this run's artifacts come from."""
    return Origin(
        run_id=ctx.records.run_id,
        stage=stage,
        config_digest=config_digest(ctx.config),
        data_fingerprint=ctx.opened.rows.fingerprint,
        git_commit=ctx.records.git_commit,
        seed=ctx.config.seed,
        inputs=_inputs(ctx, stage, given),
    )


def made_by(ctx: Context, names: list[str]) -> list[ArtifactCard]:
    """The cards of the artifacts of this run that are there."""
    folders = [ctx.artifact(name) for name in names]
    return [read_artifact(folder, verify=False) for folder in folders if (folder / CARD).is_file()]


def _inputs(ctx: Context, stage: str, given: Sequence[Parent]) -> str:
    return inputs_digest(ctx.config, stage, given, code=code_digest())


def _parent(ctx: Context, role: str, path: Path) -> Parent:
    ref = artifact_ref(path, allow_changed=ctx.config.tracking.allow_changed)
    beside = ctx.artifact("any")
    where = os.path.relpath(path, beside) if path.is_relative_to(ctx.run_dir) else str(path)
    return Parent(role=role, name=ref.name, digest=ref.digest, path=where)
