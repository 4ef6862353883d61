"""Results of earlier runs that were made from the same inputs in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.errors import ArtifactError
from rlhf_ray.files.digest import file_digest, json_digest
from rlhf_ray.tracking.artifacts import CARD, Parent, read_artifact

PACKAGE = Path(__file__).parents[1]

# sections of the configuration that a stage's result depends on, besides its parents and its data
_SECTIONS = {
    "sft": ("model", "sft", "learner"),
    "reward_model": ("model", "reward_model", "reward", "learner"),
}
_ALL = ("model", "sft", "reward_model", "reward", "algorithm", "generator", "learner", "evaluation")
_MODULES = ("actors", "algorithms", "data", "generation", "learner", "loops", "models", "reward", "weight_sync")
_SAMPLING = ("temperature", "max_new_tokens")


def inputs_digest(config: TrainConfig, stage: str, made_from: Sequence[Parent], *, code: str) -> str:
    """Digest over all that a stage's result follows from: what it was made from, settings, seed and code.

    Where a directory lies does not count, its content does.
    """
    tree = asdict(config)
    settings = {name: _without_paths(tree[name]) for name in _SECTIONS.get(stage, _ALL)}
    if stage == "reward_model":  # it is trained on answers that are sampled for it
        settings["sampling"] = {name: tree["algorithm"][name] for name in _SAMPLING}
        settings["generator"] = {name: tree["generator"][name] for name in ("backend", "dtype")}
    return json_digest(
        {
            "stage": stage,
            "seed": config.seed,
            "learning_rate": config.learning_rate,
            "lengths": [config.data.max_prompt_tokens, config.data.on_long_prompt],
            "settings": settings,
            "parents": {parent.role: parent.digest for parent in made_from},
            "code": code,
        }
    )


def code_digest() -> str:
    """Digest over the modules that results follow from, as they are now, committed or not."""
    files = {
        path.relative_to(PACKAGE).as_posix(): file_digest(path)
        for name in _MODULES
        for path in sorted((PACKAGE / name).rglob("*.py"))
    }
    return json_digest(files)


def find_result(folder: Path, name: str, *, inputs: str) -> Path | None:
    """An undamaged artifact of this name from these inputs in one of the runs in `folder`; the newest one."""
    for card in sorted(folder.glob(f"*/artifacts/{name}/{CARD}"), reverse=True):
        try:
            if read_artifact(card.parent, verify=False).origin.inputs == inputs:
                read_artifact(card.parent, verify=True)
                return card.parent
        except ArtifactError:
            continue  # of another format, or damaged: it is made once more
    return None


def _without_paths(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name != "path"}
