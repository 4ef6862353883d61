"""Several jobs from one command line."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from rich.console import Console

from rlhf_ray.errors import ConfigError
from rlhf_ray.files.lock import FolderLock
from rlhf_ray.sweep import (
    EarlierJob,
    JobResult,
    earlier_job,
    error_of,
    expand,
    run_in_process,
    status_of,
    table_of,
)


def test_every_combination_is_a_job_and_plain_words_go_with_all():
    jobs, differing = expand(["seed=1,2", "stages=[sft,ppo]", "algorithm.clip=0.1,0.2"])
    assert jobs == [
        ["seed=1", "stages=[sft,ppo]", "algorithm.clip=0.1"],
        ["seed=1", "stages=[sft,ppo]", "algorithm.clip=0.2"],
        ["seed=2", "stages=[sft,ppo]", "algorithm.clip=0.1"],
        ["seed=2", "stages=[sft,ppo]", "algorithm.clip=0.2"],
    ]
    assert differing[1] == ("seed=1", "algorithm.clip=0.2")


def test_ranges_choices_and_groups_are_expanded():
    jobs, _ = expand(["seed=range(1,4)", "generator=choice(hf,vllm)"])
    assert [job[0] for job in jobs[::2]] == ["seed=1", "seed=2", "seed=3"]
    assert [job[1] for job in jobs[:2]] == ["generator=hf", "generator=vllm"]


def test_quoted_values_stay_quoted():
    jobs, _ = expand(["model.path='a=b','c d'"])
    assert jobs == [["model.path='a=b'"], ["model.path='c d'"]]


def test_without_several_values_there_is_one_job():
    assert expand(["seed=3"]) == ([["seed=3"]], [()])


def test_what_cannot_be_listed_is_refused():
    with pytest.raises(ConfigError, match="seed=interval"):
        expand(["seed=interval(0,1)"])
    with pytest.raises(ConfigError, match="experiment=glob"):
        expand(["experiment=glob(*)"])
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        expand(["seed"])


@pytest.mark.parametrize(
    ("target", "code", "status"),
    [
        (partial(int, 0), 0, "finished"),
        (partial(int, 2), 2, "refused"),
        (partial(int, "not a number"), 1, "failed"),
        (partial(int, 130), 130, "stopped"),
        (os.abort, -6, "killed (SIGABRT)"),
    ],
    ids=["returns", "refuses", "raises", "interrupted", "dies"],
)
def test_whatever_a_job_does_its_end_is_known(target, code, status):
    assert run_in_process(target) == code
    assert status_of(code) == status


INTERRUPTED = """
import signal, sys, time
from functools import partial
from rlhf_ray.sweep import run_in_process

def job():
    def end(*_):
        print("ended once", flush=True)
        sys.exit(7)
    signal.signal(signal.SIGTERM, end)
    print("at work", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    try:
        run_in_process(job)
    except KeyboardInterrupt as interrupt:
        print(type(interrupt).__name__, flush=True)
"""


def test_a_sweep_that_is_killed_takes_its_job_with_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.kill()
    assert process.stdout.read() == "ended once\n", "the pipe is closed when the last of both is gone"
    process.wait()


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Preempted")], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interrupt_ends_the_job_once_and_then_the_sweep(tmp_path, number, name):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    assert process.communicate(timeout=30)[0].splitlines() == ["ended once", name]
    assert process.returncode == 0


def test_the_table_tells_status_and_directory_of_every_job():
    console = Console(record=True, width=100)
    console.print(
        table_of(
            [
                JobResult(words=("seed=1",), status="finished", run_dir="outputs/a/1"),
                JobResult(
                    words=("seed=2",), status="refused", run_dir="", error="algorithm.clip=[0]: accepted is a number"
                ),
            ]
        )
    )
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.export_text().splitlines()]
    assert ["0", "seed=1", "finished", "outputs/a/1", ""] in lines
    assert ["1", "seed=2", "refused", "", "algorithm.clip=[0]: accepted is a number"] in lines


SETTINGS = {"seed": 1, "algorithm": {"clip": 0.2}, "run_dir": "x", "tracking": {"backend": "local"}}


def write_run(folder, *, status, settings=SETTINGS, error=None):
    folder.mkdir(parents=True)
    run = {"id": folder.name, "status": status, "error": error, "config": settings | {"run_dir": str(folder)}}
    (folder / "run.json").write_text(json.dumps(run))


def test_a_job_that_was_done_is_found_wherever_and_however_it_was_recorded(tmp_path):
    write_run(tmp_path / "1", status="finished")
    write_run(tmp_path / "2", status="failed")
    write_run(tmp_path / "3", status="finished", settings=SETTINGS | {"seed": 2})
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / "run.json").write_text("{cut")
    wanted = SETTINGS | {"run_dir": "elsewhere", "tracking": {"backend": "wandb"}}
    assert earlier_job(tmp_path, wanted) == EarlierJob(run_dir=tmp_path / "1", finished=True)
    assert earlier_job(tmp_path, wanted | {"seed": 3}) is None
    assert earlier_job(tmp_path / "nowhere", wanted) is None


def test_the_newest_unfinished_run_goes_on_unless_a_process_is_at_it(tmp_path):
    write_run(tmp_path / "1", status="failed")
    write_run(tmp_path / "2", status="running")
    assert earlier_job(tmp_path, SETTINGS) == EarlierJob(run_dir=tmp_path / "2", finished=False)
    lock = FolderLock(tmp_path / "2")
    assert earlier_job(tmp_path, SETTINGS) == EarlierJob(run_dir=tmp_path / "1", finished=False)
    lock.release()
    assert earlier_job(tmp_path, SETTINGS) == EarlierJob(run_dir=tmp_path / "2", finished=False)


def test_why_a_job_failed_is_read_from_its_record(tmp_path):
    write_run(tmp_path / "1", status="failed", error="DivergedError: loss is nan")
    assert error_of(tmp_path / "1") == "DivergedError: loss is nan"
    assert error_of(tmp_path / "2") == ""
