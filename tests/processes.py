"""Finding processes again after they should be gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

MARK = "RLHF_RAY_TEST_RUN"


def marked(mark: str) -> list[psutil.Process]:
    """Living processes that inherited MARK=mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def left_behind(mark: str) -> list[psutil.Process]:
    """Those besides this process and the tracker that Python's own multiprocessing keeps beside it to its end."""
    me = os.getpid()
    return [
        process
        for process in marked(mark)
        if process.pid != me and not (process.ppid() == me and "resource_tracker" in " ".join(process.cmdline()))
    ]


def soon(condition: Callable[[], bool], *, within_s: float) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def shared_memory() -> set[str]:
    """Named segments."""
    return {path.name for path in Path("/dev/shm").iterdir()}


def free_cpus(*, at_least: float) -> float:
    """CPUs that nobody reserves. What was closed a moment ago is given back a moment later: waits for `at_least`."""
    import ray

    soon(lambda: ray.available_resources().get("CPU", 0.0) >= at_least - 1e-6, within_s=20)
    return ray.available_resources().get("CPU", 0.0)
