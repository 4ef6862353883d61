"""Digests of files and folders, written as "sha256:<hex>" so that `sha256sum` can check them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What a file must be."""

    size: int  # bytes
    digest: str


def file_digest(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def json_digest(value: Any) -> str:
    """Digest of a JSON value, independent of key order and spacing. Raises ValueError for NaN and infinities."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def folder_entries(folder: Path, *, exclude: Collection[str]) -> dict[str, FileEntry]:
    """Every file below a folder by its relative name with forward slashes, sorted; `exclude` holds such names."""
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: FileEntry(size=names[name].stat().st_size, digest=file_digest(names[name]))
        for name in sorted(names)
        if name not in exclude
    }


def entries_digest(entries: Mapping[str, FileEntry]) -> str:
    """Digest over the names and contents of a folder's files."""
    return json_digest({name: entry.digest for name, entry in entries.items()})


def folder_digest(folder: Path, *, exclude: Collection[str]) -> str:
    """Digest over the names and bytes of all files below a folder; times, owners and empty folders do not count."""
    return entries_digest(folder_entries(folder, exclude=exclude))


def damages(folder: Path, expected: Mapping[str, FileEntry]) -> list[str]:
    """How a folder differs from what it must hold, one sentence a file; further files in it do not count."""
    found = {name: _damage(folder / name, entry) for name, entry in expected.items()}
    return [f"{name} {damage}" for name, damage in found.items() if damage is not None]


def _damage(path: Path, entry: FileEntry) -> str | None:
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != entry.size:
        return f"has {size} bytes instead of {entry.size}"
    digest = file_digest(path)
    return None if digest == entry.digest else f"has other content ({digest} instead of {entry.digest})"
