"""A worker without models, for tests of the runtimes."""

from __future__ import annotations

import os
import time

from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.errors import DataError, DivergedError


class ProbeWorker(Worker):
    """Adds, remembers and fails on demand."""

    def __init__(self, start: int) -> None:
        super().__init__()
        if start < 0:
            raise DataError(f"start={start}; accepted is 0 or more")
        self.seen = [start]

    @phase("update")
    def add(self, left: int, right: int) -> int:
        """The sum."""
        self.seen.append(left + right)
        return left + right

    def history(self) -> list[int]:
        """What was added, in order."""
        return self.seen

    def counted(self, count: int) -> list[int]:
        """0, 1, .."""
        return list(range(count))

    def environment(self, name: str) -> str | None:
        """A variable of the worker's process."""
        return os.environ.get(name)

    def process_id(self) -> int:
        """Of the process it lives in."""
        return os.getpid()

    def sleep(self, seconds: float) -> None:
        """Keep busy."""
        time.sleep(seconds)

    def divide(self, number: int) -> float:
        """An error of Python's own for 0."""
        return 1 / number

    def diverge(self) -> None:
        """An error of ours."""
        raise DivergedError("grad_norm is nan")
