"""Whole runs and their trackers: a sweep of which one job fails, and a run that is stopped and continued."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wandb_server import wandb_server

from rlhf_ray.tracking.wandb_file import read_wandb_run, wandb_files

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-m", "rlhf_ray.train")
QUICK = ("experiment=tiny_test", "generator=hf", "placement=local", "tracking=wandb_offline", "tracking.progress=off")
LIMIT_S = 600


def call(folder, *words, **environment):
    return subprocess.run(
        [*PROGRAM, *QUICK, *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def tracked(run_dir):
    """The tracker's runs of a job, by stage."""
    trackers = json.loads((run_dir / "run.json").read_text())["trackers"]
    files = wandb_files(run_dir)
    assert {about["run_id"] for about in trackers.values()} >= set(files), "one run a stage, and no others"
    return {
        stage: read_wandb_run(files[about["run_id"]]) for stage, about in trackers.items() if about["run_id"] in files
    }


def told(text):
    """The last table's column of status."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    return [status for number, _settings, status, *_ in (row for row in cells if len(row) == 5) if number.isdigit()]


def test_of_a_sweep_one_job_fails_and_the_others_go_on_and_a_second_start_does_what_is_missing(tmp_path):
    # the second job's first update sends its weights out of all bounds
    sweep = ("-m", "algorithm.learning_rate=1e-3,1e30", "algorithm.num_iterations=2", "hydra.sweep.dir=all")
    result = call(tmp_path, *sweep)
    assert result.returncode == 1
    runs = sorted((tmp_path / "all").iterdir())
    assert len(runs) == 2
    assert result.stderr.index("job 1 (2 in all)") < result.stderr.index("job 1 failed: ")
    assert told(result.stdout) == ["finished", "failed"]

    good, bad = (tracked(run_dir) for run_dir in runs)
    assert {stage: (run.group, run.job_type, run.exit_code) for stage, run in good.items()} == {
        stage: (runs[0].name, stage, 0) for stage in ("sft", "reward_model", "ppo")
    }
    assert set(bad) == {"ppo"}, "the same SFT policy and reward model were there already"
    assert bad["ppo"].exit_code == 1
    assert bad["ppo"].summary["error"] == json.loads((runs[1] / "run.json").read_text())["error"]
    card = json.loads((runs[0] / "artifacts/reward-model/artifact.json").read_text())
    for ppo in (good["ppo"], bad["ppo"]):
        used = {one["role"]: one for one in ppo.config["used"]}
        assert used["reward_model"]["digest"] == card["digest"]
        assert used["reward_model"]["tracked_run"] == good["reward_model"].run_id
        assert used["policy"]["tracked_run"] == good["sft"].run_id

    again = call(tmp_path, *sweep)
    assert again.returncode == 1
    assert told(again.stdout) == ["finished before", "failed"]
    assert f"all/{runs[0].name} finished with these settings before and is not done again" in again.stderr
    assert sorted((tmp_path / "all").iterdir()) == runs, "the failed job went on in its directory"


def test_a_run_that_is_stopped_says_so_and_goes_on_under_the_same_name(tmp_path):
    run_dir = tmp_path / "run"
    words = [*QUICK, f"run_dir={run_dir}", "algorithm.num_iterations=8", "evaluation.every=4", "checkpoint.every=3"]
    process = subprocess.Popen([*PROGRAM, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while last_iteration(run_dir) < 4:
        assert process.poll() is None
        assert time.monotonic() - began < LIMIT_S
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    stopped = tracked(run_dir)["ppo"]
    assert (stopped.exit_code, stopped.summary["status"]) == (143, "preempted")
    assert json.loads((run_dir / "run.json").read_text())["status"] == "preempted"

    time.sleep(1)  # the names of W&B's folders have seconds
    done = subprocess.run(
        [*PROGRAM, f"resume={run_dir}"],
        cwd=tmp_path,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = tracked(run_dir)["ppo"]
    assert (run.run_id, run.exit_code, run.summary["status"]) == (stopped.run_id, 0, "finished")
    assert [row["iteration"] for row in run.rows] == list(range(9))
    assert [row["objective/kl"] for row in run.rows[1:]] == [
        row["objective/kl"] for row in rows_of(run_dir) if row["stage"] == "ppo" and "objective/kl" in row
    ]


def test_an_interrupted_sweep_ends_its_job_and_says_how_to_go_on(tmp_path):
    words = ("-m", "seed=1,2", "stages=[sft]", "sft.num_steps=3000", "checkpoint.sft_every=20", "hydra.sweep.dir=all")
    process = subprocess.Popen(
        [*PROGRAM, *QUICK, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    began = time.monotonic()
    while not list(tmp_path.glob("all/*/checkpoints/sft/latest")):
        assert process.poll() is None
        assert time.monotonic() - began < LIMIT_S
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    (run_dir,) = tmp_path.glob("all/*")
    assert f"go on from its last checkpoint with resume={run_dir}" in err
    assert "interrupted; the same command goes on with what is missing" in err
    assert "Traceback" not in err
    assert "stopped" in out
    assert json.loads((run_dir / "run.json").read_text())["status"] == "preempted"


def test_a_pipeline_at_a_server_is_three_runs_and_ppo_names_what_it_stands_on(tmp_path):
    run_dir = tmp_path / "run"
    with wandb_server() as server:
        words = (f"run_dir={run_dir}", "tracking=wandb", "algorithm.num_iterations=2")
        result = call(tmp_path, *words, **server.environment)
        assert result.returncode == 0, result.stderr
        assert "left out" not in result.stdout + result.stderr
    trackers = json.loads((run_dir / "run.json").read_text())["trackers"]
    runs = {stage: server.runs[about["run_id"]] for stage, about in trackers.items()}
    assert {stage: (run.about["groupName"], run.about["jobType"], run.exit_code) for stage, run in runs.items()} == {
        stage: ("run", stage, 0) for stage in ("sft", "reward_model", "ppo")
    }
    assert len(server.runs) == 3
    assert server.unknown == []
    config = {stage: {key: about["value"] for key, about in run.config.items()} for stage, run in runs.items()}
    assert {key: config["ppo"][key] for key in ("seed", "model", "learning_rate", "batch_size", "beta")} == {
        "seed": 1,
        "model": "tiny",
        "learning_rate": 1e-3,
        "batch_size": 16,
        "beta": 0.05,
    }
    assert config["reward_model"]["architecture"]["kind"] == "LlamaForCausalLM"
    assert config["reward_model"]["architecture"]["output"] == "a score at the last token"
    assert config["sft"]["data"]["tokens"]["demonstrations"]["rows"] > 0
    used = {one["role"]: one for one in runs["ppo"].config["used"]["value"]}
    for role, stage, name in (("policy", "sft", "sft-policy"), ("reward_model", "reward_model", "reward-model")):
        card = json.loads((run_dir / "artifacts" / name / "artifact.json").read_text())
        (made,) = [made for made in server.artifacts.values() if made.name == name]
        assert (made.made_by, made.metadata["digest"]) == (trackers[stage]["run_id"], card["digest"])
        assert trackers["ppo"]["run_id"] in made.used_by
        assert used[role]["url"] == f"{server.url}/team/rlhf_ray/runs/{made.made_by}"
        assert (used[role]["tracked_run"], used[role]["digest"]) == (made.made_by, card["digest"])
    assert [row["iteration"] for row in runs["ppo"].rows] == [0, 1, 2]


def rows_of(run_dir):
    file = Path(run_dir) / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def last_iteration(run_dir):
    return max((row["step"] for row in rows_of(run_dir) if row["stage"] == "ppo"), default=-1)
