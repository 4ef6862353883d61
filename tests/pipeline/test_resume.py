"""A run that ended anywhere goes on as if nothing had been: the same metrics from there on."""

import json
import shutil
from pathlib import Path

import pytest
from small_run import LOCAL, read_metrics, reproducible, small_config

from rlhf_ray import pipeline
from rlhf_ray.config.host import Host
from rlhf_ray.config.load import Start, load
from rlhf_ray.errors import ConfigError
from rlhf_ray.pipeline.same_data import differences

RESULTS = {"sft": "sft-policy", "reward_model": "reward-model", "ppo": "policy"}
STAGES = tuple(RESULTS)


def resume(run_dir: Path, *words: str) -> None:
    """What `resume=DIR` does, in this process."""
    start = Start(folder=run_dir, run_name="unused", job=None, host=Host(num_cpus=2, num_gpus=0, has_vllm=True))
    config = load([f"resume={run_dir}", "tracking.progress=off", *words], start).config
    pipeline.run(config, command=("resume",))


def as_killed(finished: Path, copy: Path, *, stage: str, step: int) -> Path:
    """The directory as a kill after this checkpoint, and a few more steps, would leave it."""
    shutil.copytree(finished, copy)
    for later in STAGES[STAGES.index(stage) :]:
        shutil.rmtree(copy / "artifacts" / RESULTS[later])
        if later != stage:
            shutil.rmtree(copy / "checkpoints" / later)
    root = copy / "checkpoints" / stage
    for folder in root.glob("step-*"):
        if int(folder.name.removeprefix("step-")) > step:
            shutil.rmtree(folder)
    (root / "latest").write_text(f"step-{step:06d}\n")
    run = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(run | {"status": "running", "ended": None}))
    return copy


def digest_of(run_dir: Path, name: str) -> str:
    """Of an artifact's content."""
    return json.loads((run_dir / "artifacts" / name / "artifact.json").read_text())["digest"]


@pytest.mark.parametrize(("stage", "step"), [("sft", 30), ("reward_model", 6), ("ppo", 2)])
def test_every_stage_goes_on_to_the_same_numbers_and_models(finished_run, tmp_path, stage, step):
    run_dir = as_killed(finished_run, tmp_path / "run", stage=stage, step=step)
    resume(run_dir)
    straight, resumed = (reproducible(read_metrics(folder)) for folder in (finished_run, run_dir))
    assert len(straight) == len(resumed)
    for mine, its in zip(straight, resumed, strict=True):
        assert mine == its
    for name in RESULTS.values():
        cards = [
            json.loads((folder / "artifacts" / name / "artifact.json").read_text())
            for folder in (finished_run, run_dir)
        ]
        assert cards[0]["digest"] == cards[1]["digest"], name
    run = json.loads((run_dir / "run.json").read_text())
    assert run["status"] == "finished"
    assert [entry["status_before"] for entry in run["resumes"]] == ["running"]


def test_rows_and_answers_past_the_checkpoint_are_set_aside(finished_run, tmp_path):
    run_dir = as_killed(finished_run, tmp_path / "run", stage="ppo", step=2)
    resume(run_dir)
    aside = [json.loads(line) for line in next(run_dir.glob("metrics.set-aside-*.jsonl")).read_text().splitlines()]
    assert [(row["stage"], row["step"]) for row in aside] == [("ppo", 3)]
    answers = next(run_dir.glob("rollouts.set-aside-*"))
    assert [path.name for path in answers.iterdir()] == ["step-000003.parquet"]
    assert len(list((run_dir / "rollouts").glob("*.parquet"))) == 3


def test_a_run_killed_before_its_first_checkpoint_begins_that_stage_again(finished_run, tmp_path):
    run_dir = as_killed(finished_run, tmp_path / "run", stage="ppo", step=0)
    shutil.rmtree(run_dir / "checkpoints" / "ppo")
    resume(run_dir)
    assert reproducible(read_metrics(run_dir)) == reproducible(read_metrics(finished_run))


def test_a_finished_run_does_nothing_again(finished_run, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(finished_run, run_dir)
    resume(run_dir)
    assert read_metrics(run_dir) == read_metrics(finished_run)
    assert not list(run_dir.glob("*.set-aside-*"))


@pytest.fixture(scope="module")
def run_on_a_file(finished_run, tmp_path_factory) -> tuple[Path, Path]:
    """A run of PPO that stopped after its second iteration, and the file of its prompts."""
    folder = tmp_path_factory.mktemp("on_a_file")
    prompts = mixed_rows(folder)
    words = ("stages=[ppo]", f"model.path={finished_run / 'artifacts/sft-policy'}", f"data.prompts={prompts}")
    words += (f"reward.path={finished_run / 'artifacts/reward-model'}", "data.on_bad_row=skip")
    words += ("data.on_long_prompt=drop", "evaluation.num_prompts=3")
    pipeline.run(small_config(folder / "straight", *LOCAL, *words), command=())
    return folder / "straight", prompts


def test_a_file_that_changed_since_is_refused_with_what_differs_unless_that_is_allowed(run_on_a_file, tmp_path):
    straight, prompts = run_on_a_file
    run_dir = as_killed(straight, tmp_path / "run", stage="ppo", step=2)
    before = prompts.read_text()
    lines = before.splitlines(keepends=True)
    prompts.write_text("".join(lines[:30] + lines[31:]))
    run_json = (run_dir / "run.json").read_text()
    with pytest.raises(ConfigError) as refusal:
        resume(run_dir)
    assert f"resume={run_dir}: the rows are not those that the run was started with" in str(refusal.value)
    assert "prompts: 36 rows of" in str(refusal.value)
    assert "then, 35 rows of" in str(refusal.value)
    assert "tracking.allow_changed=true" in str(refusal.value)
    assert json.loads((run_dir / "run.json").read_text()) == json.loads(run_json), "a refusal leaves no trace"
    resume(run_dir, "tracking.allow_changed=true")
    assert json.loads((run_dir / "run.json").read_text())["status"] == "finished"
    prompts.write_text(before)


def test_what_differs_is_told_by_kind():
    few, many = {"rows": 4, "mean": 2.5}, {"rows": 5, "mean": 2.4}
    assert list(differences({"prompts": few, "demonstrations": few}, {"prompts": few, "preferences": many})) == [
        "demonstrations: 4 rows of 2.50 tokens on average then, none now",
        "preferences: none then, 5 rows of 2.40 tokens on average now",
    ]
    assert list(differences({"prompts": few}, {"prompts": few})) == [
        "as many rows of the same lengths, with other token ids"
    ]


def mixed_rows(folder: Path) -> Path:
    """40 good prompts, 2 rows that are none, 3 prompts that are too long."""
    rows: list[object] = [{"prompt": f"The film number {i} was"} for i in range(40)]
    rows[5:5] = [{"question": "x"}, 17]
    rows += [{"prompt": "The film was " * 100}] * 3
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "prompts.jsonl"


def rows_in(checkpoint: Path) -> dict[str, int]:
    """What a checkpoint says of the data."""
    state = json.loads((checkpoint / "manifest.json").read_text())["state"]
    rows: dict[str, int] = state["rows"]
    return rows


def test_checkpoints_say_what_became_of_the_rows_before_and_after_a_resume(run_on_a_file, tmp_path):
    straight, _ = run_on_a_file
    counted = {"kept": 40, "skipped": 2, "dropped": 3, "cut": 0}
    (first,) = read_metrics(straight, "data")
    assert {name: first[f"data/rows_{name}"] for name in counted} == counted
    killed = as_killed(straight, tmp_path / "killed", stage="ppo", step=2)
    assert rows_in(killed / "checkpoints/ppo/step-000002") == counted
    resume(killed)
    assert rows_in(killed / "checkpoints/ppo/step-000003") == counted


def test_checkpoints_of_every_stage_count_the_rows(finished_run):
    for stage in STAGES:
        folder = max((finished_run / "checkpoints" / stage).glob("step-*"))
        assert rows_in(folder).keys() == {"kept", "skipped", "dropped", "cut"}, stage
        assert rows_in(folder)["kept"] > 0
