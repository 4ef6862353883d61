"""What a run leaves behind, and what it does not do again."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_run import LOCAL, read_metrics, small_config

from rlhf_ray import pipeline
from rlhf_ray.errors import DataError
from rlhf_ray.tracking.artifacts import read_artifact
from rlhf_ray.tracking.registry import check_names


@pytest.fixture(scope="module")
def own_inputs(finished_run, tmp_path_factory) -> tuple[str, ...]:
    """Words of a run on directories and a file of one's own."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(finished_run / "artifacts" / "sft-policy", folder / "policy")
    shutil.copytree(finished_run / "artifacts" / "reward-model", folder / "reward")
    openings = ("The film was", "This hotel in Rome", "My new phone", "The soup tasted")
    rows = [{"prompt": f"{opening} {number}"} for number in range(8) for opening in openings]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return (
        "stages=[ppo]",
        f"model.path={folder}/policy",
        f"reward.path={folder}/reward",
        f"data.prompts={folder}/prompts.jsonl",
        "evaluation.num_prompts=3",
    )


@pytest.fixture(scope="module")
def own_run(own_inputs, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("run") / "run"
    pipeline.run(small_config(run_dir, *LOCAL, *own_inputs), command=("stages=[ppo]",))
    return run_dir


def test_a_whole_run_leaves_every_record(finished_run):
    run = json.loads((finished_run / "run.json").read_text())
    assert run["status"] == "finished"
    assert run["error"] is None
    assert set(run["stage_seconds"]) == {"sft", "reward_model", "ppo"}
    rows = read_metrics(finished_run)
    for row in rows:
        check_names(set(row) - {"stage", "step"})
    assert [row["step"] for row in rows if row["stage"] == "sft"] == [0, 20, 30, 40, 60]
    assert [row["step"] for row in rows if row["stage"] == "ppo"] == [0, 1, 2, 3]
    for name in ("summary.json", "lineage.json", "curves.png", "metrics.jsonl"):
        assert (finished_run / name).stat().st_size > 100, name
    for name in ("sft-policy", "reward-model", "policy"):
        read_artifact(finished_run / "artifacts" / name, verify=True)


def test_every_answer_is_recorded_with_the_version_that_gave_it(finished_run):
    files = sorted((finished_run / "rollouts").glob("*.parquet"))
    tables = [pq.read_table(file).to_pylist() for file in files]
    assert [len(rows) for rows in tables] == [16, 16, 16]
    for iteration, rows in enumerate(tables):
        for row in rows:
            assert (row["version_first"], row["version_last"]) == (iteration, iteration)
            assert len(row["response_tokens"]) == len(row["logprobs"]) == len(row["values"])


def test_the_artifacts_say_what_they_were_made_from(finished_run):
    cards = {
        name: json.loads((finished_run / "artifacts" / name / "artifact.json").read_text())
        for name in ("sft-policy", "reward-model", "policy")
    }
    parents = {name: {parent["digest"] for parent in card["parents"]} for name, card in cards.items()}
    assert cards["sft-policy"]["digest"] in parents["reward-model"]
    assert {cards["sft-policy"]["digest"], cards["reward-model"]["digest"]} <= parents["policy"]


def test_a_stage_whose_result_is_given_is_not_run(own_run):
    assert {row["stage"] for row in read_metrics(own_run)} == {"data", "ppo"}, "data: what became of the rows"
    assert [path.name for path in sorted((own_run / "artifacts").iterdir())] == ["policy"]
    assert sorted(path.name for path in (own_run / "checkpoints").iterdir()) == ["ppo"]
    prompts = {row["prompt"] for row in pq.read_table(next((own_run / "rollouts").glob("*.parquet"))).to_pylist()}
    assert all(
        prompt.rpartition(" ")[0] in {"The film was", "This hotel in Rome", "My new phone", "The soup tasted"}
        for prompt in prompts
    )


def test_the_lineage_names_the_given_models(own_run, finished_run):
    lineage = (own_run / "lineage.json").read_text()
    for name in ("sft-policy", "reward-model"):
        card = json.loads((finished_run / "artifacts" / name / "artifact.json").read_text())
        assert card["digest"] in lineage


def test_the_result_loads_as_an_ordinary_model_and_writes(own_run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = own_run / "artifacts" / "policy"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("The film was", return_tensors="pt")
    written = model.generate(input_ids=inputs["input_ids"], max_new_tokens=8)
    assert written.shape[1] > inputs["input_ids"].shape[1]
    assert (folder / "model.safetensors").is_file()
    assert not list(folder.glob("*.bin"))


def test_the_doctor_knows_the_ceiling_of_a_reward_model_that_another_run_has_trained(own_inputs, tmp_path):
    given = dict(word.split("=", 1) for word in own_inputs)
    reward = tmp_path / "reward"
    shutil.copytree(given["reward.path"], reward)
    card = json.loads((reward / "artifact.json").read_text())
    card["metrics"]["reward_model/score_ceiling"] = -100.0
    (reward / "artifact.json").write_text(json.dumps(card))
    words = (*own_inputs, f"reward.path={reward}", "algorithm.num_iterations=6")
    pipeline.run(small_config(tmp_path / "run", *LOCAL, *words), command=("stages=[ppo]",))
    told = [json.loads(line) for line in (tmp_path / "run" / "findings.jsonl").read_text().splitlines()]
    assert "reward_hacking.above_ceiling" in {record.get("rule") for record in told}


def test_records_of_another_run_are_not_overwritten(finished_run):
    with pytest.raises(DataError, match="already holds the records of a run; continue it with resume="):
        pipeline.run(small_config(finished_run, *LOCAL), command=())
