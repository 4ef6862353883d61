"""One run: start the workers, go through the stages, write what came of it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.doctor.findings import Diagnosis
from rlhf_ray.doctor.report import closing_line
from rlhf_ray.errors import OtherDataError, Preempted, RecordsError, RlhfRayError
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.pipeline.artifacts import made_by, made_from
from rlhf_ray.pipeline.context import Context
from rlhf_ray.pipeline.monitor import Monitor
from rlhf_ray.pipeline.same_data import require_same_data
from rlhf_ray.pipeline.stages import POLICY, REWARD_MODEL, SFT_POLICY, ppo_stage, reward_model_stage, sft_stage
from rlhf_ray.pipeline.start import open_runtime, open_team
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.report.page import REPORT_FILE, write_report
from rlhf_ray.tracking.artifacts import write_lineage
from rlhf_ray.tracking.picture import draw_training_curves
from rlhf_ray.tracking.progress import Display, open_display
from rlhf_ray.tracking.records import RunRecords, RunStatus, read_run, resume_records, start_records
from rlhf_ray.tracking.summary import Places, ShownAnswer, print_summary, summarise, write_summary

SOURCE = Path(__file__).parent


def run(config: TrainConfig, *, command: Sequence[str]) -> None:
    """Train what `config.stages` names; results and records go to `config.run_dir`.

    Raises RlhfRayError; whatever happens, run.json says how the run ended and the workers are gone.
    """
    run_dir = Path(config.run_dir)
    with ended_by_sigterm(), unwritten_told(run_dir):
        before = {} if config.resume is None else read_run(run_dir)
        records = open_records(config, run_dir, command)
        console = Console()
        display = open_display(config.tracking.progress, console=console, clock=time.time)
        monitor = Monitor(config, run_dir, rows=records.rows(), tell=display.message)
        try:
            display.message(f"run directory {run_dir}")
            results, shown = train(config, records, display=display, monitor=monitor)
            summary = conclude(records, results, shown=shown)
        except OtherDataError:
            records.withdraw(before)
            raise
        except Exception as error:
            end(records, RunStatus.FAILED, f"{type(error).__name__}: {error}", console=console)
            leave_report(run_dir, console)
            raise
        except KeyboardInterrupt as interrupt:
            end(records, RunStatus.PREEMPTED, type(interrupt).__name__, console=console)
            raise
        finally:
            monitor.close()
            display.close()
        records.finish(RunStatus.FINISHED, error=None)
        diagnosis = leave_report(run_dir, console)
        print_summary(summary, console)
        print_last_words(run_dir, diagnosis, ended=monitor.ended, console=console)


def train(
    config: TrainConfig, records: RunRecords, *, display: Display, monitor: Monitor
) -> tuple[dict[str, Path], list[ShownAnswer]]:
    """The models by role and the answers to show; the workers live no longer than this."""
    display.message("starting the workers (up to a minute)")
    runtime = open_runtime(config)
    try:
        ctx = Context(
            config=config,
            run_dir=records.run_dir,
            opened=open_team(runtime, config, records.run_dir),
            records=records,
            display=display,
            tracker=Tracker(config, records, tell=display.message),
            monitor=monitor,
        )
        results = run_stages(ctx)
        return results, answers_to_show(ctx, results)
    finally:
        runtime.close()


def conclude(records: RunRecords, results: Mapping[str, Path], *, shown: Sequence[ShownAnswer]) -> dict[str, Any]:
    """Write summary.json and, where PPO ran, the picture of its curves; returns the summary."""
    rows, run_dir = records.rows(), records.run_dir
    places = Places(model=results.get("policy"), records=run_dir)
    summary = summarise(rows, answers=shown, seconds=records.stage_seconds, places=places)
    write_summary(run_dir, summary)
    if any(row["stage"] == "ppo" for row in rows):
        draw_training_curves(rows, run_dir / "curves.png")
    return summary


def open_records(config: TrainConfig, run_dir: Path, command: Sequence[str]) -> RunRecords:
    """New records, or those of the run to continue."""
    if config.resume is not None:
        return resume_records(run_dir, command=command, source=SOURCE, clock=time.time)
    return start_records(
        run_dir, config=asdict(config), command=command, seed=config.seed, source=SOURCE, clock=time.time
    )


def end(records: RunRecords, status: RunStatus, error: str, *, console: Console) -> None:
    """Write why the run ended; where that cannot be written, the error itself is still the one that is told."""
    try:
        records.finish(status, error=error)
    except OSError as unwritten:
        console.print(
            f"{records.run_dir}/run.json could not be written and still says running: {unwritten}", markup=False
        )


@contextmanager
def unwritten_told(run_dir: Path) -> Iterator[None]:
    """A disk that is full, or a directory that was removed, in the words of an error of ours."""
    try:
        yield
    except OSError as error:
        raise RecordsError(
            f"{run_dir}: its records cannot be written or read back ({error}); where the directory is still there, "
            f"make room if need be, and go on with resume={run_dir}"
        ) from error


def print_last_words(run_dir: Path, diagnosis: Diagnosis | None, *, ended: str | None, console: Console) -> None:
    """What the doctor did and says."""
    lines = [] if ended is None else [ended]
    lines += [] if diagnosis is None else [closing_line(diagnosis, run_dir)]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def leave_report(run_dir: Path, console: Console) -> Diagnosis | None:
    """report.html, where a stage has recorded anything; a run does not fail for want of it."""
    try:
        if all(row["stage"] == "data" for row in read_jsonl(run_dir / "metrics.jsonl")):
            return None
        return write_report(run_dir, run_dir / REPORT_FILE)
    except (RlhfRayError, OSError) as error:
        console.print(f"no {REPORT_FILE}: {error}", markup=False)
        return None


def run_stages(ctx: Context) -> dict[str, Path]:
    """The stages in order; returns the models there are, by role."""
    config = ctx.config
    given = {"base": ctx.opened.base_model}
    results = {"policy": ctx.opened.base_model}
    if config.reward.path is not None:
        results["reward_model"] = given["reward_model"] = Path(config.reward.path)
    for note in ctx.notes():
        ctx.display.message(note)
    require_same_data(ctx)
    if config.resume is None:
        fates = ctx.opened.rows.fates
        counts = {
            "data/rows_kept": float(fates.kept),
            "data/rows_skipped": float(fates.skipped),
            "data/rows_dropped": float(fates.dropped),
            "data/rows_cut": float(fates.cut),
        }
        ctx.records.metrics("data", 0, counts)
    for stage in config.stages:
        with ctx.stage(stage):
            match stage:
                case "sft":
                    results["policy"] = sft_stage(ctx)
                case "reward_model":
                    results["reward_model"] = reward_model_stage(ctx, results["policy"])
                case "ppo":
                    results["policy"] = ppo_stage(ctx, policy=results["policy"], reward=results["reward_model"])
        write_lineage(
            ctx.run_dir,
            run_id=ctx.records.run_id,
            made=made_by(ctx, [SFT_POLICY, REWARD_MODEL, POLICY]),
            used=made_from(ctx, given),
        )
    return results


def answers_to_show(ctx: Context, results: dict[str, Path]) -> list[ShownAnswer]:
    """Held-out prompts with answers before and after, where PPO ran."""
    count = ctx.config.evaluation.num_shown
    if results["policy"] != ctx.artifact(POLICY) or not count:
        return []
    runtime = ctx.opened.team.runtime
    shown: list[ShownAnswer] = runtime.gather([runtime.call(ctx.opened.team.workers.data, DataWorker.shown, count)])[0]
    return shown


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: records are closed and the workers go. Main thread only.

    One is enough: a cluster manager that repeats it must not cut off the ending that the first one began, so from then
    on the process ignores it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Preempted

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, before)
