"""Checkpoints that are complete or not there.

    root/
      latest             a text file that names the newest complete checkpoint: step-000020
      step-000020/       the parts and manifest.json (step-000020-2/: the same step saved once more)
      .step-*            being written, replaced or removed; never read

Workers write their parts into the folder of `begin`; `commit` then checks them, gives the folder its name and points
`latest` at it. Killed at any moment, `latest` names a complete checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rlhf_ray.checkpoint.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from rlhf_ray.errors import CheckpointError
from rlhf_ray.files.atomic import replace_folder, sync_tree, write_text_atomic
from rlhf_ray.files.digest import damages, folder_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint whose every file was found as the manifest says."""

    path: Path
    step: int
    state: Mapping[str, Any]  # the driver's own state

    def part(self, name: str) -> Path:
        """The folder that one worker wrote."""
        return self.path / name


class CheckpointStore:
    """The checkpoints of one stage, written by one driver. Raises CheckpointError.

    `parts` are the files or folders without which a checkpoint is not complete: ("policy", "critic").
    """

    def __init__(self, root: Path, *, keep: int, parts: Sequence[str]) -> None:
        if keep < 1:
            raise CheckpointError(f"{root}: keep={keep}; at least 1 checkpoint must be kept")
        self._root = root
        self._keep = keep
        self._parts = tuple(parts)

    def begin(self, step: int) -> Path:
        """An empty folder for the parts of a new checkpoint. Leftovers of earlier attempts are removed.

        Refuses where the device has less room than the last checkpoint took.
        """
        folder = self._unfinished(step)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            self._check_space(step)
            folder.mkdir()
        except OSError as error:
            raise CheckpointError(f"cannot begin checkpoint {step} in {self._root}: {error}") from error
        return folder

    def commit(self, step: int, *, state: Mapping[str, Any]) -> Path:
        """Check that every part is there, make the checkpoint the latest, then remove those beyond `keep`.

        On an error the unfinished folder is removed and `latest` is what it was.
        """
        folder = self._unfinished(step)
        try:
            final = self._free_folder(step)
            self._seal(folder, step, state)
            replace_folder(folder, final)
            write_text_atomic(self._root / "latest", final.name + "\n")
        except (OSError, CheckpointError) as error:
            self.abandon(step)
            raise CheckpointError(f"checkpoint {step} was not saved in {self._root}: {error}") from error
        try:
            self._remove_superseded(final)
        except OSError as error:
            raise CheckpointError(f"{final} is saved, but older checkpoints cannot be removed: {error}") from error
        return final

    def abandon(self, step: int) -> None:
        """Remove what was written since `begin`."""
        shutil.rmtree(self._unfinished(step), ignore_errors=True)

    def latest(self) -> Checkpoint | None:
        """The checkpoint that `latest` names, every file verified; None where nothing was ever committed."""
        pointer = self._root / "latest"
        if not pointer.exists():
            return None
        name = pointer.read_text(encoding="utf-8").strip()
        if not name or not (self._root / name).is_dir():
            raise CheckpointError(f"{pointer} names {name!r}, which does not exist; there are {self._names()}")
        return verified(self._root / name)

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending; files are not looked at."""
        return sorted({_order(folder)[0] for folder in self._folders()})

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint of this step, every file verified. CheckpointError where there is none."""
        folders = [folder for folder in self._folders() if _order(folder)[0] == step]
        if not folders:
            raise CheckpointError(f"{self._root} has no checkpoint of step {step}; there are {self._names()}")
        return verified(max(folders, key=_order))

    def complete(self) -> list[Checkpoint]:
        """All undamaged checkpoints, newest first, whatever `latest` says: the choices after damage."""
        found = []
        for folder in self._folders():
            try:
                found.append(verified(folder))
            except CheckpointError:
                continue
        return found

    def _seal(self, folder: Path, step: int, state: Mapping[str, Any]) -> None:
        files = folder_entries(folder, exclude={MANIFEST})
        missing = [part for part in self._parts if not any(PurePosixPath(name).is_relative_to(part) for name in files)]
        if missing or not files:
            raise CheckpointError(f"{folder} lacks {missing} of its parts {list(self._parts)}")
        sync_tree(folder)
        write_manifest(folder, Manifest(step=step, files=files, state=state))
        verified(folder)

    def _check_space(self, step: int) -> None:
        folders = self._folders()
        needed = sum(path.stat().st_size for path in folders[0].rglob("*") if path.is_file()) if folders else 0
        free = shutil.disk_usage(self._root).free
        if free < needed:
            raise CheckpointError(
                f"no room for checkpoint {step} in {self._root}: {free:,} bytes are free and the last one took"
                f" {needed:,}; free some space or lower checkpoint.keep ({self._keep})"
            )

    def _remove_leftovers(self) -> None:
        for folder in self._root.glob(".step-*"):
            shutil.rmtree(folder)
        for file in self._root.glob(".latest.*"):
            file.unlink()

    def _remove_superseded(self, newest: Path) -> None:
        """Older ones beyond `keep`, and later ones, which belong to a course that a resume has left."""
        folders = self._folders()
        newest_of_step = {_order(folder)[0]: folder for folder in reversed(folders) if _order(folder) <= _order(newest)}
        kept = [newest_of_step[step] for step in sorted(newest_of_step, reverse=True)[: self._keep]]
        for folder in folders:
            if folder not in kept:
                doomed = folder.with_name(f".{folder.name}.removed")  # half removed, it must not look complete
                folder.rename(doomed)
                shutil.rmtree(doomed)

    def _free_folder(self, step: int) -> Path:
        """A new name each time: what `latest` names is never moved, so no moment is without a complete checkpoint."""
        attempts = [attempt for taken, attempt in map(_order, self._folders()) if taken == step]
        suffix = f"-{max(attempts) + 1}" if attempts else ""
        return self._root / f"step-{step:06d}{suffix}"

    def _unfinished(self, step: int) -> Path:
        return self._root / f".step-{step:06d}.unfinished"

    def _folders(self) -> list[Path]:
        return sorted((path for path in self._root.glob("step-*") if path.is_dir()), key=_order, reverse=True)

    def _names(self) -> list[str]:
        return [folder.name for folder in self._folders()]


def verified(folder: Path) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError naming every file that is missing or differs from the manifest."""
    manifest = read_manifest(folder)
    found = damages(folder, manifest.files)
    if found:
        raise CheckpointError(f"{folder} is damaged: {'; '.join(found)}")
    return Checkpoint(path=folder, step=manifest.step, state=manifest.state)


def _order(folder: Path) -> tuple[int, int]:
    """Step and attempt."""
    _, step, *attempt = folder.name.split("-")
    return int(step), int(attempt[0]) if attempt else 1
