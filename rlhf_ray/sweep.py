"""Several jobs from one command line, one after the other, each in a process of its own.

A job that is refused, fails or is killed by the system does not stop the others, and leaves nothing behind for them.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import NoReturn

from hydra.core.override_parser.types import Override
from rich.table import Column, Table

from rlhf_ray.config.overrides import parse_overrides
from rlhf_ray.errors import ConfigError

_GRACE_S = 60.0  # for a job to end after an interrupt
_TERMINATED = 143


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What became of one job."""

    words: tuple[str, ...]  # those that differ between jobs
    status: str
    run_dir: str  # empty where it was refused


def expand(words: Sequence[str]) -> tuple[list[list[str]], list[tuple[str, ...]]]:
    """The words of every job, and those of them that differ between jobs. Raises ConfigError."""
    overrides, wrong = parse_overrides(words)
    endless = [
        f"{override.input_line}: only values that can be listed are swept; accepted are a,b,c and range(1,4)"
        for override in overrides
        if override.is_sweep_override() and not _is_listed(override)
    ]
    if wrong or endless:
        raise ConfigError("\n".join(wrong + endless))
    choices = [
        [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
        if override.is_sweep_override()
        else [str(override.input_line)]
        for override in overrides
    ]
    swept = [override.is_sweep_override() for override in overrides]
    jobs = [list(job) for job in product(*choices)]
    return jobs, [tuple(word for word, differs in zip(job, swept, strict=True) if differs) for job in jobs]


def run_in_process(target: Callable[[], int]) -> int:
    """The exit code of a call in a fresh process (negative: the signal that ended it)."""
    process = multiprocessing.get_context("spawn").Process(target=_exit_with, args=(target,))
    before = signal.signal(signal.SIGTERM, _end)
    try:
        process.start()
        process.join()
    except KeyboardInterrupt:
        process.join(_GRACE_S)  # the terminal has interrupted it, too
        raise
    finally:
        _stop(process)
        signal.signal(signal.SIGTERM, before)
    return process.exitcode if process.exitcode is not None else _TERMINATED


def status_of(exit_code: int) -> str:
    """An exit code in a word."""
    match exit_code:
        case 0:
            return "finished"
        case 2:
            return "refused"
        case 130 | 143:
            return "stopped"
        case code if code < 0:
            return f"killed ({signal.Signals(-code).name})"
        case _:
            return "failed"


def table_of(results: Sequence[JobResult]) -> Table:
    """One line per job."""
    table = Table("job", "settings", "status", Column("run directory", overflow="fold"))
    for number, result in enumerate(results):
        table.add_row(str(number), " ".join(result.words), result.status, result.run_dir)
    return table


def _is_listed(override: Override) -> bool:
    return override.is_discrete_sweep() and not str(override.input_line).partition("=")[2].startswith("glob(")


def _exit_with(target: Callable[[], int]) -> NoReturn:
    sys.exit(target())


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)


def _stop(process: BaseProcess) -> None:
    if process.is_alive():
        process.terminate()
        process.join()
