"""Around every worker: a failure is told with the worker's role and method, wherever the worker runs."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlhf_ray.actors.worker import Worker
from rlhf_ray.errors import RlhfRayError, WorkerError


@contextmanager
def told_by(label: str) -> Iterator[None]:
    """Errors of ours get `label` in front; all others become WorkerError that names type, file and line."""
    try:
        yield
    except RlhfRayError as error:
        raise type(error)(f"{label}: {error}") from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        raise WorkerError(f"{label} failed: {type(error).__name__}: {error} ({where})") from error


class Shell:
    """What a Ray actor is: one worker. A constructor that raises is told by the first call, with its own error."""

    def __init__(self, role: str, kind: type[Worker], *args: object) -> None:
        self._role = role
        self._failure: RlhfRayError | None = None
        try:
            with told_by(f"start of {role}"):
                self._worker = kind(*args)
        except RlhfRayError as error:
            self._failure = error

    def run(self, method: str, *args: object) -> Any:
        """Call a method of the worker."""
        if self._failure is not None:
            raise self._failure
        with told_by(f"{self._role}.{method}"):
            return getattr(self._worker, method)(*args)

    def run_for_one(self, method: str, *args: object) -> Any:
        """The only item of the method's result: asked for one result, Ray would hand back the whole sequence."""
        (item,) = self.run(method, *args)
        return item

    def process_id(self) -> int:
        """Answers while the process lives and is not busy."""
        return os.getpid()
