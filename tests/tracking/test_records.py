import json
import subprocess
from importlib.metadata import version

import pytest

from rlhf_ray.errors import DataError, MetricError
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.tracking.environment import git_state, package_versions
from rlhf_ray.tracking.records import RunStatus, read_run, resume_records, start_records

NOON = 1_790_000_000.0  # 2026-09-21T14:13:20 UTC


@pytest.fixture
def ticking():
    """A clock that a minute passes on at every look."""
    times = iter(NOON + 60 * i for i in range(100))
    return lambda: next(times)


def begin(run_dir, clock):
    return start_records(
        run_dir,
        config={"seed": 3, "model": {"path": None}},
        command=["train", "seed=3"],
        seed=3,
        source=run_dir,
        clock=clock,
    )


def steps(path):
    return [(row["stage"], row["step"]) for row in read_jsonl(path)]


def test_a_run_records_what_it_is_from_its_first_moment(tmp_path, ticking):
    begin(tmp_path / "run-7", ticking)
    run = json.loads((tmp_path / "run-7" / "run.json").read_text())
    assert run["id"] == "run-7"
    assert (run["status"], run["error"], run["ended"]) == ("running", None, None)
    assert run["started"] == "2026-09-21T14:13:20+00:00"
    assert (run["command"], run["seed"], run["config"]["model"]) == (["train", "seed=3"], 3, {"path": None})
    assert run["versions"]["numpy"] == version("numpy")
    assert run["git"] is None  # not in a repository
    assert run["platform"]["cpus"] >= 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(RunStatus.FINISHED, None), (RunStatus.FAILED, "WorkerError: generator 0 died"), (RunStatus.PREEMPTED, "SIGTERM")],
)
def test_a_run_records_how_it_ended(tmp_path, ticking, status, error):
    records = begin(tmp_path, ticking)
    records.add_stage_seconds("sft", 10.5)
    records.add_stage_seconds("ppo", 3.0)
    records.finish(status, error=error)
    run = read_run(tmp_path)
    assert (run["status"], run["error"], run["ended"]) == (status.value, error, "2026-09-21T14:14:20+00:00")
    assert run["stage_seconds"] == {"sft": 10.5, "ppo": 3.0}


def test_metrics_are_rows_with_stage_and_step_and_undefined_values_are_null(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    records.metrics("ppo", 1, {"objective/kl": 0.5, "val/explained_variance": None, "reward/parts/gold": 1.0})
    assert read_jsonl(tmp_path / "metrics.jsonl") == [
        {"stage": "ppo", "step": 1, "objective/kl": 0.5, "val/explained_variance": None, "reward/parts/gold": 1.0}
    ]


def test_an_unknown_metric_is_refused_before_anything_is_written(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    with pytest.raises(MetricError, match="objective/klx"):
        records.metrics("ppo", 1, {"objective/kl": 0.5, "objective/klx": 0.5})
    assert records.rows() == []


def test_a_directory_with_records_is_not_begun_twice(tmp_path, ticking):
    begin(tmp_path, ticking)
    with pytest.raises(DataError, match="already holds the records of a run; continue it with resume="):
        begin(tmp_path, ticking)


def test_a_run_that_goes_on_cannot_be_continued_by_another(tmp_path, ticking):
    first = begin(tmp_path, ticking)
    with pytest.raises(DataError, match="is in use by another process"):
        resume_records(tmp_path, command=[], source=tmp_path, clock=ticking)
    first.finish(RunStatus.FINISHED, error=None)
    resume_records(tmp_path, command=[], source=tmp_path, clock=ticking)


def test_what_a_tracker_calls_a_stage_is_kept(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    assert records.tracked("ppo") is None
    records.set_tracked("ppo", {"backend": "wandb", "run_id": "abc"})
    assert read_run(tmp_path)["trackers"] == {"ppo": {"backend": "wandb", "run_id": "abc"}}
    assert records.tracked("ppo") == {"backend": "wandb", "run_id": "abc"}


def test_a_resume_keeps_the_rows_and_notes_itself(tmp_path, ticking):
    first = begin(tmp_path, ticking)
    first.metrics("sft", 1, {"sft/loss": 2.0})
    first.add_stage_seconds("sft", 10.0)
    first.finish(RunStatus.FAILED, error="OSError: disk full")
    second = resume_records(tmp_path, command=["train", "resume=x"], source=tmp_path, clock=ticking)
    second.metrics("sft", 2, {"sft/loss": 1.0})
    second.add_stage_seconds("sft", 5.0)
    second.save()
    run = read_run(tmp_path)
    assert (run["status"], run["error"], run["ended"]) == ("running", None, None)
    assert run["stage_seconds"] == {"sft": 15.0}
    (resume,) = run["resumes"]
    assert resume["command"] == ["train", "resume=x"]
    assert (resume["status_before"], resume["error_before"]) == ("failed", "OSError: disk full")
    assert steps(tmp_path / "metrics.jsonl") == [("sft", 1), ("sft", 2)]


def test_a_resume_of_what_is_no_run_is_refused(tmp_path, ticking):
    with pytest.raises(DataError, match="is not the directory of a run"):
        resume_records(tmp_path, command=[], source=tmp_path, clock=ticking)


def test_rows_and_answers_after_the_checkpoint_are_set_aside(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    records.metrics("sft", 200, {"sft/loss": 2.0})
    for step in range(5):
        records.metrics("ppo", step, {"objective/kl": float(step)})
    records.rollouts_dir.mkdir()
    for step in (2, 3, 4):
        (records.rollouts_dir / f"step-{step:06d}.parquet").touch()

    assert records.set_aside_after("ppo", 3) == 1
    records.metrics("ppo", 4, {"objective/kl": 40.0})
    assert records.set_aside_after("ppo", 2) == 2

    assert steps(tmp_path / "metrics.jsonl") == [("sft", 200), ("ppo", 0), ("ppo", 1), ("ppo", 2)]
    assert steps(tmp_path / "metrics.set-aside-1.jsonl") == [("ppo", 4)]
    assert steps(tmp_path / "metrics.set-aside-2.jsonl") == [("ppo", 3), ("ppo", 4)]
    assert [path.name for path in records.rollouts_dir.iterdir()] == ["step-000002.parquet"]
    assert [path.name for path in (tmp_path / "rollouts.set-aside-1").iterdir()] == ["step-000004.parquet"]
    assert [path.name for path in (tmp_path / "rollouts.set-aside-2").iterdir()] == ["step-000003.parquet"]


def test_going_back_to_an_earlier_stage_sets_aside_all_that_came_later(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    for stage, step, name in (
        ("sft", 100, "sft/loss"),
        ("sft", 200, "sft/loss"),
        ("reward_model", 50, "reward_model/loss"),
        ("ppo", 1, "objective/kl"),
    ):
        records.metrics(stage, step, {name: 1.0})
    records.rollouts_dir.mkdir()
    (records.rollouts_dir / "step-000001.parquet").touch()
    assert records.set_aside_after("sft", 100) == 3
    assert steps(tmp_path / "metrics.jsonl") == [("sft", 100)]
    assert list(records.rollouts_dir.iterdir()) == []


def test_with_nothing_later_nothing_is_set_aside(tmp_path, ticking):
    records = begin(tmp_path, ticking)
    records.metrics("ppo", 3, {"objective/kl": 1.0})
    assert records.set_aside_after("ppo", 3) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "metrics.jsonl", "run.json"]


def test_the_commit_and_whether_files_differ_from_it_are_seen(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    assert git_state(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    state = git_state(tmp_path)
    assert len(state["commit"]) == 40
    assert state["changed"] is False
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == {"commit": state["commit"], "changed": True}


def test_packages_that_are_not_installed_are_left_out():
    assert package_versions(["numpy", "no-such-package"]) == {"numpy": version("numpy")}
