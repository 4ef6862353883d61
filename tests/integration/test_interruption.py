"""A run that is killed or asked to end: what is written stays, nothing runs on, and it can be continued."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from processes import MARK, marked, soon
from small_run import LOCAL, ON_RAY, by_step, read_metrics, reproducible

REPOSITORY = Path(__file__).parents[2]
PREEMPTED = 143


def program(*words: str, folder: Path, mark: str = "") -> subprocess.Popen[str]:
    """Started, not waited for."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlhf_ray.train", *words],
        cwd=folder,
        env=os.environ | {MARK: mark, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_iteration(run_dir: Path, process: subprocess.Popen[str], number: int) -> None:
    """Until the row of this PPO iteration is written."""
    deadline = time.monotonic() + 300
    while f'"stage": "ppo", "step": {number},' not in (
        (run_dir / "metrics.jsonl").read_text() if (run_dir / "metrics.jsonl").exists() else ""
    ):
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        assert time.monotonic() < deadline, "the run is too slow"
        time.sleep(0.02)


def test_a_run_killed_in_the_middle_of_ppo_goes_on_where_it_was(finished_run, tmp_path):
    """The killed run's own later rows are what the continued one has to write again."""
    artifacts, run_dir = finished_run / "artifacts", tmp_path / "run"
    words = [
        "experiment=tiny_test",
        *LOCAL,
        "stages=[ppo]",
        f"model.path={artifacts}/sft-policy",
        f"reward.path={artifacts}/reward-model",
        f"run_dir={run_dir}",
        "algorithm.num_iterations=12",
        "checkpoint.every=4",
        "evaluation.every=3",
    ]
    process = program(*words, folder=tmp_path)
    wait_for_iteration(run_dir, process, 6)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert json.loads((run_dir / "run.json").read_text())["status"] == "running"
    killed = by_step(reproducible(read_metrics(run_dir, "ppo")))

    resumed = program(f"resume={run_dir}", folder=tmp_path)
    output, _ = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, output
    rows = by_step(reproducible(read_metrics(run_dir, "ppo")))
    assert sorted(rows) == list(range(13))
    assert all(rows[step] == row for step, row in killed.items())
    aside = [
        json.loads(line) for file in run_dir.glob("metrics.set-aside-*.jsonl") for line in file.read_text().splitlines()
    ]
    assert {row["step"] for row in aside} == {step for step in killed if step > max(killed) // 4 * 4}
    assert json.loads((run_dir / "run.json").read_text())["status"] == "finished"


def ended_by_sigterm(words: tuple[str, ...], tmp_path: Path, *, times: int = 1) -> None:
    """SIGTERM in the middle of PPO: exit code, status, no process left."""
    run_dir, mark = tmp_path / "run", uuid.uuid4().hex
    endless = ("experiment=tiny_test", f"run_dir={run_dir}", "algorithm.num_iterations=100000")
    process = program(*endless, *words, folder=tmp_path, mark=mark)
    wait_for_iteration(run_dir, process, 2)
    for _ in range(times):
        process.terminate()
        time.sleep(0.05)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == PREEMPTED, output
    assert "Traceback" not in output
    run = json.loads((run_dir / "run.json").read_text())
    assert (run["status"], run["error"]) == ("preempted", "Preempted")
    assert soon(lambda: not marked(mark), within_s=20), [left.cmdline() for left in marked(mark)]


def test_sigterm_ends_a_run_in_this_process_as_preempted(tmp_path):
    ended_by_sigterm(LOCAL, tmp_path)


def test_sigterm_sent_again_and_again_does_not_cut_the_ending_short(tmp_path):
    ended_by_sigterm(LOCAL, tmp_path, times=6)


@pytest.mark.slow
def test_sigterm_ends_a_run_on_ray_as_preempted(tmp_path):
    ended_by_sigterm(ON_RAY, tmp_path)


@pytest.mark.slow
def test_a_killed_driver_takes_its_cluster_with_it(tmp_path):
    run_dir, mark = tmp_path / "run", uuid.uuid4().hex
    endless = ("experiment=tiny_test", f"run_dir={run_dir}", "algorithm.num_iterations=100000", *ON_RAY)
    process = program(*endless, folder=tmp_path, mark=mark)
    wait_for_iteration(run_dir, process, 1)
    assert len(marked(mark)) > 6, "driver, raylet, store and workers"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert soon(lambda: not marked(mark), within_s=60), [left.cmdline() for left in marked(mark)]


def test_a_run_whose_directory_is_removed_ends_at_its_next_row_in_words(tmp_path):
    run_dir = tmp_path / "run"
    words = ("experiment=tiny_test", *LOCAL, f"run_dir={run_dir}", "algorithm.num_iterations=100000")
    process = program(*words, folder=tmp_path)
    wait_for_iteration(run_dir, process, 1)
    shutil.rmtree(run_dir)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    assert f"error: {run_dir}: its records cannot be written or read back" in output
    assert "Traceback" not in output
