"""What a stage's run at W&B holds, read back from its own files; and servers that never answer."""

import json
import math
import socketserver
import threading
import time

import pytest
from wandb_writer import write

from rlhf_ray.tracking.wandb_file import read_wandb_run, wandb_files
from rlhf_ray.tracking.wandb_id import take_agent

USED = {"role": "policy", "name": "sft-policy", "digest": "sha256:s", "tracked_run": "abc", "url": "https://w/abc"}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """A run that failed at 4, and went on from its checkpoint at 2."""
    folder = tmp_path_factory.mktemp("resumed")
    used = [USED | {"tracked_artifact": None}]
    write(folder, environment={}, steps=[0, 1, 2, 3, 4], status="failed", used=used)
    (first,) = wandb_files(folder)["f00d"]
    time.sleep(1)  # the names of W&B's folders have seconds
    write(folder, environment={}, steps=[3, 4, 5, 6], sweep_id="sweep9", used=used)
    return folder, read_wandb_run([first])


def test_a_failed_run_says_so_with_its_error(resumed):
    _, run = resumed
    assert run.exit_code == 1
    assert (run.summary["status"], run.summary["error"]) == ("failed", "it broke")


def test_a_resumed_run_keeps_its_id_and_no_iteration_is_lost_or_double(resumed):
    folder, _ = resumed
    assert list(wandb_files(folder)) == ["f00d"]
    run = read_wandb_run(wandb_files(folder)["f00d"])
    assert [row["iteration"] for row in run.rows] == [0, 1, 2, 3, 4, 5, 6]
    assert [row["_step"] for row in run.rows] == [0, 1, 2, 3, 4, 5, 6]
    assert (run.exit_code, run.summary["status"]) == (0, "finished")


def test_group_kind_config_axis_and_summaries_are_there(resumed):
    folder, _ = resumed
    run = read_wandb_run(wandb_files(folder)["f00d"])
    assert (run.project, run.group, run.job_type, run.name) == ("rlhf_ray", "run-1", "ppo", "run-1/ppo")
    assert (run.config["seed"], run.config["beta"], run.sweep_id) == (3, 0.05, "sweep9")
    assert run.config["used"] == [USED | {"tracked_artifact": None}]
    assert run.step_metrics["*"] == "iteration"
    assert run.summary["objective/scores"] == {"max": 6, "last": 6}


def test_numbers_that_are_not_finite_are_flagged_and_undefined_ones_left_out(resumed):
    rows = read_wandb_run(wandb_files(resumed[0])["f00d"]).rows
    assert "objective/scores" not in rows[2]
    assert (rows[2]["objective/scores/nonfinite"], rows[1]["objective/kl/nonfinite"]) == ("nan", "inf")
    assert all(math.isfinite(row[name]) for row in rows for name in ("objective/scores", "objective/kl") if name in row)
    assert "eval/win_rate" not in rows[0]


def test_tables_distributions_alerts_and_the_result_are_there(resumed):
    folder, _ = resumed
    files = wandb_files(folder)["f00d"]
    run = read_wandb_run(files)
    assert run.rows[6]["objective/scores_histogram"]["values"] == [1, 2]
    table = json.loads((files[-1].parent / "files" / run.rows[6]["samples"]["path"]).read_text())
    assert (table["columns"], table["data"]) == (["prompt", "kl"], [["Hello", 0.5], ["Bye", None]])
    assert [(alert.title, alert.level) for alert in run.alerts] == [("KL", "WARN")] * 2
    results = [one for one in run.artifacts if one.kind == "policy"]
    assert [one.name for one in results] == ["policy", "policy"]
    assert set(results[-1].aliases) == {"latest", "run-1"}
    card = json.loads((folder / "policy" / "artifact.json").read_text())
    assert results[-1].metadata["digest"] == card["digest"]
    assert results[-1].files == ("artifact.json",), "models are uploaded where asked for"


class Silent(socketserver.BaseRequestHandler):
    """Takes the request and never answers."""

    def handle(self):
        self.server.asked.set()
        self.server.over.wait()


@pytest.fixture
def silent_server():
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads, server.asked, server.over = True, threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


def test_a_server_that_never_answers_is_left_for_offline_records(silent_server, tmp_path):
    """Nothing waits for it but the end, and nothing is lost."""
    server = {"WANDB_BASE_URL": f"http://127.0.0.1:{silent_server.server_address[1]}", "WANDB_API_KEY": "0" * 40}
    began = time.monotonic()
    result = write(tmp_path, environment=server, online=True, patience_s=16.0)
    assert silent_server.asked.is_set()
    assert float(result.stdout.partition("slowest ")[2].split()[0]) < 1
    assert "W&B cannot be used (" in result.stdout
    assert "wandb sync" in result.stdout
    (path,) = [path for path in wandb_files(tmp_path)["f00d"] if path.parent.name.startswith("offline-run")]
    assert [row["iteration"] for row in read_wandb_run([path]).rows] == [0, 1, 2, 3]
    assert time.monotonic() - began < 60


def test_what_a_sweeps_agent_says_is_taken_out_of_the_environment_once():
    environment = {"WANDB_SWEEP_ID": "s", "WANDB_RUN_ID": "r", "WANDB_SWEEP_PARAM_PATH": "p", "HOME": "h"}
    agent = take_agent(environment)
    assert agent is not None
    assert (agent.sweep_id, agent.run_id) == ("s", "r")
    assert environment == {"HOME": "h"}
    assert take_agent(environment) is None
