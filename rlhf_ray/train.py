"""python -m rlhf_ray.train KEY=VALUE ...   (--help lists the choices and settings)

Composes and checks the whole configuration first; torch, Ray and vLLM are imported only once nothing is wrong with it.
Exit code: 0 finished, 1 failed, 2 refused (settings, data, models), 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rlhf_ray.config.composition import CONF_DIR, CONFIG_NAME, compose_values, prepare_hydra
from rlhf_ray.config.host import inspect_host
from rlhf_ray.config.load import Loaded, Start, check_words, load, raise_together, with_experiment
from rlhf_ray.config.overrides import JOB_RUNNERS
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.errors import ConfigError, DataError, ModelError, Preempted, RlhfRayError
from rlhf_ray.preflight import world_problems
from rlhf_ray.resume_check import resume_problems
from rlhf_ray.row_check import row_problems
from rlhf_ray.sweep import JobResult, earlier_job, error_of, expand, run_in_process, status_of, table_of
from rlhf_ray.tracking.console import table_console

FINISHED, FAILED, REFUSED, INTERRUPTED, PREEMPTED = 0, 1, 2, 130, 143
_ENVIRONMENT = {
    "OMP_WAIT_POLICY": "PASSIVE",  # read when torch loads: idle threads would spin on the cores of other workers
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",  # models are directories: a missing file is an error, not a download
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """Hydra's options as far as this program has them."""

    words: tuple[str, ...]  # KEY=VALUE
    multirun: bool
    shows: tuple[str, ...]  # options that show something instead of running


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    line = parse(arguments)
    try:
        if line.shows:
            return _show(line)
        if not line.multirun:
            return run(_ready(line.words, job=None), command=line.words)
        if any(word.startswith(f"{runner}=") for word in line.words for runner in JOB_RUNNERS):
            return _run_by_hydra(line)
        return _sweep(line.words)
    except RlhfRayError as error:
        _say(error)
        return _code(error)
    except KeyboardInterrupt as interrupt:
        return PREEMPTED if isinstance(interrupt, Preempted) else INTERRUPTED


def parse(arguments: Sequence[str]) -> CommandLine:
    """Exits with code 2 on an unknown option."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.train", add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("-m", "--multirun", action="store_true", help="one job per combination of values")
    parser.add_argument("-c", "--cfg", choices=("job", "hydra", "all"), help="show the configuration and stop")
    parser.add_argument("-p", "--package", help="with --cfg: only this part")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: interpolations resolved")
    parser.add_argument("-i", "--info", nargs="?", const="all", help="show how the configuration is composed")
    parser.add_argument("-cd", "--config-dir", type=Path, help="look for choices there, too")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--hydra-help", action="store_true")
    given = parser.parse_intermixed_args(arguments)
    words = list(given.words)
    if given.config_dir is not None:
        words.insert(0, f"hydra.searchpath=[file://{given.config_dir.resolve()}]")
    options = {
        "--help": given.help,
        "--hydra-help": given.hydra_help,
        f"--cfg={given.cfg}": given.cfg,
        f"--info={given.info}": given.info,
    }
    shows = [option for option, is_given in options.items() if is_given]
    if given.cfg:
        shows += ["--resolve"] * given.resolve + [f"--package={given.package}"] * (given.package is not None)
    return CommandLine(words=tuple(words), multirun=given.multirun, shows=tuple(shows))


def run(loaded: Loaded, *, command: Sequence[str]) -> int:
    """Warn, then train; the exit code."""
    config = loaded.config
    for warning in loaded.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    if config.dry_run:
        sys.stdout.write(f"nothing is wrong; stages={','.join(config.stages)} would run in {config.run_dir}\n")
        return FINISHED
    return _train(config, command=tuple(command))


def _train(config: TrainConfig, *, command: tuple[str, ...]) -> int:
    if config.placement.address is None:
        # read when Ray loads: a cluster started here answers only those who know its token
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    from rlhf_ray import pipeline

    try:
        pipeline.run(config, command=command)
    except RlhfRayError as error:
        _say(error)
        return _code(error)
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"interrupted; go on from its last checkpoint with resume={config.run_dir}\n")
        return PREEMPTED if isinstance(interrupt, Preempted) else INTERRUPTED
    return FINISHED


def _ready(words: Sequence[str], *, job: int | None) -> Loaded:
    """Compose and check everything. Raises ConfigError."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"
    loaded = load(words, Start(folder=Path.cwd(), run_name=name, job=job, host=inspect_host()))
    raise_together([*world_problems(loaded.config), *resume_problems(loaded.config)])
    raise_together(row_problems(loaded.config))
    return loaded


def _sweep(words: Sequence[str]) -> int:
    """Jobs one after the other; what goes wrong with one is told at once and again at the end."""
    jobs, differing = expand(words)
    results: list[JobResult] = []
    try:
        for number, (job, own) in enumerate(zip(jobs, differing, strict=True)):
            sys.stderr.write(f"job {number} ({len(jobs)} in all): {' '.join(own)}\n")
            results.append(JobResult(words=own, status="stopped", run_dir=""))  # unless it comes to an end
            results[-1] = _run_job(job, own=own, number=number)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on with what is missing (with reuse=off, anew)\n")
        raise
    finally:
        table_console().print(table_of(results))
    return FINISHED if all(result.status.startswith("finished") for result in results) else FAILED


def _run_job(words: list[str], *, own: tuple[str, ...], number: int) -> JobResult:
    """What is left to do of a job: nothing, the rest of a run that stopped, or all of it."""
    try:
        loaded = _ready(words, job=number)
        earlier = None
        if loaded.config.reuse != "off" and loaded.config.resume is None and not loaded.config.dry_run:
            earlier = earlier_job(Path(loaded.config.run_dir).parent, asdict(loaded.config))
        if earlier is not None and earlier.finished:
            sys.stderr.write(
                f"job {number}: {_shown(earlier.run_dir)} finished with these settings before and is not done again "
                "(trackers do not count; reuse=off does it anew)\n"
            )
            return JobResult(words=own, status="finished before", run_dir=_shown(earlier.run_dir))
        if earlier is not None:
            sys.stderr.write(f"job {number}: {_shown(earlier.run_dir)} goes on\n")
            loaded = _ready([*words, f"resume='{earlier.run_dir}'"], job=number)
    except RlhfRayError as error:
        _say(error)
        return JobResult(words=own, status="refused", run_dir="", error=str(error))
    if loaded.config.reuse == "auto":
        loaded = replace(loaded, config=replace(loaded.config, reuse="on"))
    run_dir = Path(loaded.config.run_dir)
    code = run_in_process(partial(run, loaded, command=words))
    reason = "" if code == FINISHED else error_of(run_dir)
    if code != FINISHED:
        sys.stderr.write(f"job {number} {status_of(code)}: {reason or 'its record tells no reason'}\n")
    return JobResult(words=own, status=status_of(code), run_dir=_shown(run_dir), error=reason)


def _shown(folder: Path) -> str:
    """Relative to where the program was started, where it lies below."""
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)


def _show(line: CommandLine) -> int:
    words = with_experiment(line.words)
    prepare_hydra(lambda: "NAME")
    if not line.multirun:
        check_words(words, hydra_runs_jobs=False)
        compose_values(words, job=None)
    sys.argv = [sys.argv[0], *line.shows, *words]
    _job_of_hydra()
    return FINISHED


def _run_by_hydra(line: CommandLine) -> int:
    """A launcher or sweeper of Hydra's runs the jobs; it raises at the end when one failed."""
    words = with_experiment(line.words)
    check_words(words, hydra_runs_jobs=True)
    prepare_hydra(lambda: f"{datetime.now():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hand errors on, rather than print their stack
    sys.argv = [sys.argv[0], "--multirun", *words]
    _job_of_hydra()
    return FINISHED


@hydra.main(config_path=str(CONF_DIR), config_name=CONFIG_NAME, version_base="1.3")  # type: ignore[untyped-decorator]  # Hydra has none
def _job_of_hydra(_node: DictConfig) -> None:
    """One job, wherever Hydra's launcher put it. The words are loaded again, for the checks and the types."""
    job = HydraConfig.get()
    words = [*job.overrides.task, f"run_dir='{job.runtime.output_dir}'"]
    try:
        code = run(_ready(words, job=None), command=words)
    except RlhfRayError as error:
        _say(error)
        raise
    if code != FINISHED:
        raise RlhfRayError(f"{' '.join(words)}: {status_of(code)}")


def _say(error: RlhfRayError) -> None:
    sys.stderr.write(f"error: {error}\n")


def _code(error: RlhfRayError) -> int:
    return REFUSED if isinstance(error, ConfigError | DataError | ModelError) else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
