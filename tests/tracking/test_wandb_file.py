"""What W&B itself writes offline is read back."""

import math
import shutil
from pathlib import Path

import pytest

from rlhf_ray.errors import DataError
from rlhf_ray.tracking.wandb_file import read_records, read_wandb_run, wandb_files

LONG = "x" * 100_000  # more than three blocks


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    import wandb

    folder = tmp_path_factory.mktemp("wandb")
    quiet = wandb.Settings(
        console="off", silent=True, x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True
    )
    run = wandb.init(
        mode="offline",
        project="reviews",
        group="pipeline",
        job_type="ppo",
        name="ppo of pipeline",
        dir=str(folder),
        config={"seed": 3, "algorithm": {"kl_coef": 0.05}},
        settings=quiet,
    )
    run.define_metric("objective/*", step_metric="iteration")
    for step in range(3):
        run.log({"objective/kl": [0.5, math.nan, math.inf][step], "iteration": step}, step=step)
    run.log({"note": LONG, "nested": {"a": {"b": 1}}}, step=7)
    run.alert(title="KL", text="runs away", level="WARN")
    run.log_artifact(wandb.Artifact("policy", type="model", metadata={"digest": "sha256:1"}), aliases=["best"])
    run.finish(exit_code=1)
    wandb.teardown()  # returns once the file is complete
    return folder


def test_config_history_axes_alerts_and_artifacts_are_read_back(recorded):
    ((run_id, paths),) = wandb_files(recorded).items()
    run = read_wandb_run(paths)
    assert run.run_id == run_id
    assert (run.project, run.group, run.job_type, run.name) == ("reviews", "pipeline", "ppo", "ppo of pipeline")
    assert (run.config["seed"], run.config["algorithm"]) == (3, {"kl_coef": 0.05})
    assert run.step_metrics == {"objective/*": "iteration"}
    assert [row["_step"] for row in run.rows] == [0, 1, 2, 7]
    assert run.rows[0]["objective/kl"] == 0.5
    assert math.isnan(run.rows[1]["objective/kl"])
    assert run.rows[2]["objective/kl"] == math.inf
    assert run.rows[3]["note"] == LONG
    assert run.rows[3]["nested"] == {"a": {"b": 1}}
    assert [(alert.title, alert.text, alert.level) for alert in run.alerts] == [("KL", "runs away", "WARN")]
    (artifact,) = run.artifacts
    assert (artifact.name, artifact.kind, artifact.metadata) == ("policy", "model", {"digest": "sha256:1"})
    assert "best" in artifact.aliases
    assert run.summary["objective/kl"] == math.inf
    assert run.exit_code == 1


@pytest.fixture
def path(recorded, tmp_path):
    (paths,) = wandb_files(recorded).values()
    return Path(shutil.copy(paths[0], tmp_path))


def test_what_a_killed_writer_left_unfinished_is_left_out(path):
    whole = len(list(read_records(path)))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 3)
    assert len(list(read_records(path))) == whole - 1
    assert read_wandb_run([path]).exit_code is None


def test_a_flipped_byte_is_told_with_its_place(path):
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"run-\w+\.wandb is damaged at byte 7"):
        read_wandb_run([path])


def test_another_kind_of_file_is_refused(tmp_path):
    path = tmp_path / "run-x.wandb"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"run-x\.wandb is no file of W&B"):
        list(read_records(path))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_records(tmp_path / "nowhere.wandb"))


def test_of_two_files_of_one_run_the_later_one_counts(path):
    once, twice = read_wandb_run([path]), read_wandb_run([path, path])
    assert [row["_step"] for row in twice.rows] == [row["_step"] for row in once.rows]
