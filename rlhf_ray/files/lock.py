"""One writer a folder: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from rlhf_ray.errors import DataError

NAME = ".lock"


class FolderLock:
    """Held from construction to `release`. Raises DataError where another process holds it."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise DataError(f"{folder} is in use by another process") from error

    def release(self) -> None:
        """Let others in. A released lock cannot be used again."""
        os.close(self._descriptor)


def in_use(folder: Path) -> bool:
    """Whether a process holds the folder's lock now. Reading is enough."""
    if not (folder / NAME).exists():
        return False
    descriptor = os.open(folder / NAME, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
