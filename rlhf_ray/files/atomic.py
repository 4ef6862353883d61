"""Files and folders that are either complete or not there: written beside their place, flushed to disk, renamed."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder; on success it is flushed and takes `path`'s place, on an error it goes.

    Raises OSError where something that is no regular file stands there: a device would be replaced, not written to.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "is no regular file", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        sync_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_to_disk(path.parent)


def write_text_atomic(path: Path, text: str) -> None:
    """A reader sees the old text or the new one, never a part."""
    with replaced_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json_atomic(path: Path, value: Any) -> None:
    """Indented JSON. Raises ValueError for NaN and infinities, which JSON does not have."""
    write_text_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sync_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """`sync_to_disk` for everything in a folder and for the folder itself."""
    for path in folder.rglob("*"):
        sync_to_disk(path)
    sync_to_disk(folder)


def replace_folder(temporary: Path, final: Path) -> None:
    """Give a finished folder its name. One that stands there is moved aside first and removed last.

    Killed between the two renames, `final` is missing while both contents are intact beside it.
    """
    sync_tree(temporary)
    aside = final.with_name(f".{final.name}.{secrets.token_hex(4)}.old")
    if final.exists():
        final.rename(aside)
    temporary.rename(final)
    sync_to_disk(final.parent)
    if aside.exists():
        shutil.rmtree(aside)
