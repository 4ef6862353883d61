"""Whether the checkpoint that a run would go on from is whole, found out before Ray starts or a model loads."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.errors import CheckpointError


def resume_problems(config: TrainConfig) -> list[str]:
    """What is wrong with the last checkpoint of the stage under way, and which others are whole."""
    if config.resume is None:
        return []
    root = Path(config.run_dir) / "checkpoints"
    if root.exists() and not root.is_dir():
        return [f"{root} is a file; the run's checkpoints belong into a folder of that name"]
    begun = [stage for stage in config.stages if (root / stage).is_dir()]
    if not begun:
        return []
    store = CheckpointStore(root / begun[-1], keep=config.checkpoint.keep, parts=())
    try:
        store.latest()
    except CheckpointError as error:
        whole = [checkpoint.path.name for checkpoint in store.complete()]
        others = f"whole are {', '.join(whole)}" if whole else "there is no whole one"
        remedy = f": write one of these names into {root / begun[-1] / 'latest'} to go on from it" if whole else ""
        return [f"resume={config.resume}: {error}; {others}{remedy}"]
    return []
