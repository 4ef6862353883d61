"""What a stage's run at W&B holds, read back from its own files; and servers that never answer."""

import json
import math
import os
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlhf_ray.tracking.wandb_file import read_wandb_run, wandb_files
from rlhf_ray.tracking.wandb_id import take_agent, wandb_environment

WRITER = """
import sys, math
from pathlib import Path
from functools import partial
import time
from rlhf_ray.files.jsonl import finite_row
from rlhf_ray.tracking.artifacts import ArtifactId, Origin, write_artifact_card
from rlhf_ray.tracking.patient_sink import PatientSink
from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, StageRun, UsedArtifact, recordable
from rlhf_ray.tracking.wandb_id import WandbSettings
from rlhf_ray.tracking.wandb_sink import WANDB_ERRORS, open_wandb
from rlhf_ray.types import Histogram

folder, mode, first, last, status, patience_s = Path(sys.argv[1]), *map(eval, sys.argv[2:])
used = UsedArtifact(role="policy", name="sft-policy", digest="sha256:s", tracked_run="abc", url="https://w/abc",
                    tracked_artifact=None)
stage = StageRun(stage="ppo", pipeline="run-1", name="run-1/ppo", folder=folder, config={"seed": 3, "beta": 0.05},
                 used=(used,), tags=("reviews", "seed 3"))
settings = WandbSettings(online=mode == "online", project="rlhf_ray", entity=None, upload_models=False,
                         patience_s=patience_s, sweep_id="sweep9" if status == "finished" else None)
sink = PatientSink(partial(open_wandb, stage, settings, run_id="f00d", tell=print), errors=WANDB_ERRORS,
                   patience_s=patience_s, tell=print, clock=time.monotonic)
slowest = 0.0
for step in range(first, last + 1):
    began = time.monotonic()
    score, kl = math.nan if step == 2 else float(step), math.inf if step == 1 else 0.5
    values = {"objective/scores": score, "objective/kl": kl, "eval/win_rate": None}
    sink.metrics(step, recordable(finite_row(values)))
    sink.show(step, Histogram((1, 2), (0.0, 1.0, 2.0)), name="objective/scores_histogram")
    slowest = max(slowest, time.monotonic() - began)
sink.show(last, Sheet(name="samples", columns=("prompt", "kl"), rows=(("Hello", 0.5), ("Bye", None))), name="samples")
sink.alert(Alert(title="KL", text="runs away", level="warning"))
artifact = folder / "policy"
artifact.mkdir(exist_ok=True)
(artifact / "w").write_text("w")
card = write_artifact_card(artifact, identity=ArtifactId(kind="policy", name="policy", version=last),
    origin=Origin(run_id="run-1", stage="ppo", config_digest="c", data_fingerprint="d", git_commit=None, seed=3,
                  inputs="sha256:i"),
    parents=[], metrics={"eval/win_rate": 0.9}, decision=None)
sink.made(MadeArtifact(folder=artifact, card=card))
sink.close(End(status=status, error=None if status == "finished" else "it broke"))
print("slowest", slowest)
print("tracked", sink.tracked())
"""


def write(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {**os.environ, **wandb_environment(folder), **environment}
    command = [sys.executable, "-c", WRITER, str(folder), *map(repr, arguments)]
    return subprocess.run(command, env=names, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """A run that failed at 4, and went on from its checkpoint at 2."""
    folder = tmp_path_factory.mktemp("resumed")
    write(folder, "offline", 0, 4, "failed", 20)
    (first,) = wandb_files(folder)["f00d"]
    time.sleep(1)  # the names of W&B's folders have seconds
    write(folder, "offline", 3, 6, "finished", 20)
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
    assert (
        run.config["used"][0] | {"role": "policy", "digest": "sha256:s", "tracked_run": "abc"} == run.config["used"][0]
    )
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
    url = f"http://127.0.0.1:{silent_server.server_address[1]}"
    began = time.monotonic()
    result = write(tmp_path, "online", 0, 3, "finished", 16, WANDB_BASE_URL=url, WANDB_API_KEY="0" * 40)
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
