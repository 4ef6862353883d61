"""The files under rollouts/: one per iteration. What is in them: rollouts.py."""

from __future__ import annotations

from pathlib import Path


def rollouts_path(folder: Path, step: int) -> Path:
    """Where the answers of an iteration lie."""
    return folder / f"step-{step:06d}.parquet"


def prune_rollouts(folder: Path, *, keep: int) -> None:
    """Remove the oldest iterations beyond `keep`."""
    for path in sorted(folder.glob("step-*.parquet"), key=rollouts_step, reverse=True)[keep:]:
        path.unlink()


def rollouts_step(path: Path) -> int:
    """The iteration a file belongs to."""
    return int(path.stem.removeprefix("step-"))
