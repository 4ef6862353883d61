"""Several jobs from one command line, one after the other, each in a process of its own.

A job that is refused, fails or is killed by the system does not stop the others, and leaves nothing behind for them.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from hydra.core.override_parser.types import Override
from rich.table import Column, Table
from rich.text import Text

from rlhf_ray.config.digest import job_digest
from rlhf_ray.config.overrides import parse_overrides
from rlhf_ray.errors import ConfigError, DataError, Preempted
from rlhf_ray.files.lock import in_use
from rlhf_ray.tracking.records import RunStatus, read_run

_GRACE_S = 60.0  # for a job to end after an interrupt
_TERMINATED = 143
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What became of one job."""

    words: tuple[str, ...]  # those that differ between jobs
    status: str
    run_dir: str  # empty where it was refused
    error: str = ""


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
    """The exit code of a call in a fresh process (negative: the signal that ended it).

    SIGINT and SIGTERM to this process end it by SIGTERM, once, and raise KeyboardInterrupt here.
    """
    process = multiprocessing.get_context("spawn").Process(target=_exit_with, args=(target,))
    before = signal.signal(signal.SIGTERM, _end)
    try:
        _start_deaf(process)
        process.join()
    except KeyboardInterrupt:
        process.terminate()
        process.join(_GRACE_S)
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
    fold = partial(Column, overflow="fold")
    table = Table("job", "settings", "status", fold("run directory"), fold("error"))
    for number, result in enumerate(results):
        table.add_row(str(number), " ".join(result.words), result.status, result.run_dir, Text(result.error))
    return table


@dataclass(frozen=True, kw_only=True)
class EarlierJob:
    """A run that did the same, as far as it came."""

    run_dir: Path
    finished: bool


def earlier_job(folder: Path, settings: Mapping[str, Any]) -> EarlierJob | None:
    """Of the runs in `folder` with these settings that no process is at: a finished one, or else the newest."""
    wanted, found = job_digest(settings), []
    for file in sorted(folder.glob("*/run.json"), reverse=True):
        try:
            run = read_run(file.parent)
            same = job_digest(run["config"]) == wanted
        except (DataError, KeyError, TypeError):
            continue  # no run of this program's
        if same and not in_use(file.parent):
            found.append(EarlierJob(run_dir=file.parent, finished=run["status"] == RunStatus.FINISHED))
    return max(found, key=lambda job: job.finished, default=None)


def error_of(run_dir: Path) -> str:
    """Why a run ended, as its record says; empty where it does not."""
    try:
        return str(read_run(run_dir)["error"] or "")
    except DataError:
        return ""


def _is_listed(override: Override) -> bool:
    return override.is_discrete_sweep() and not str(override.input_line).partition("=")[2].startswith("glob(")


def _exit_with(target: Callable[[], int]) -> NoReturn:
    """Linux ends the job by SIGTERM when the sweep is killed: an orphan would train on beside the next one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    sweep = multiprocessing.parent_process()
    if sweep is None or os.getppid() != sweep.pid:  # killed before it could be asked for
        sys.exit(_TERMINATED)
    sys.exit(target())


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Preempted


def _start_deaf(process: BaseProcess) -> None:
    """A terminal's Ctrl-C goes to all processes at once; this one is told by us. It inherits what is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(process: BaseProcess) -> None:
    for end in (process.terminate, process.kill):
        if process.is_alive():
            end()
            process.join(_GRACE_S)
