"""The program as a user starts it: Ray actors, real vLLM, three stages; then what it left behind, and what not."""

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from processes import MARK, marked, shared_memory, soon
from small_run import read_metrics

from rlhf_ray.tracking.artifacts import read_artifact
from rlhf_ray.tracking.registry import check_names

PPO_STEPS = [0, 1, 2, 3]


@dataclass(frozen=True)
class Ended:
    """A run of the program that is over."""

    run_dir: Path
    code: int
    output: str
    mark: str
    segments: set[str]  # of shared memory that were there before


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Ended:
    """experiment=tiny_test, everything else by default."""
    folder, mark, segments = tmp_path_factory.mktemp("program"), uuid.uuid4().hex, shared_memory()
    result = subprocess.run(
        [sys.executable, "-m", "rlhf_ray.train", "experiment=tiny_test", f"run_dir={folder}/run"],
        cwd=folder,
        env=os.environ | {MARK: mark, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
        check=False,
    )
    return Ended(folder / "run", result.returncode, result.stdout, mark, segments)


def test_it_ends_well_and_says_where_things_are(ended):
    assert ended.code == 0, ended.output
    assert "Traceback" not in ended.output
    assert str(ended.run_dir / "artifacts" / "policy") in ended.output.replace("\n", "")


def test_run_json_tells_how_it_was_made(ended):
    run = json.loads((ended.run_dir / "run.json").read_text())
    assert (run["status"], run["error"], run["seed"]) == ("finished", None, 1)
    assert run["command"] == ["experiment=tiny_test", f"run_dir={ended.run_dir}"]
    assert run["config"]["generator"]["backend"] == "vllm"
    assert run["config"]["placement"]["backend"] == "ray"
    assert run["config"]["check"]["enabled"] is True


def test_every_metric_has_a_known_name_and_every_step_its_row(ended):
    rows = read_metrics(ended.run_dir)
    for row in rows:
        check_names(set(row) - {"stage", "step"})
    assert [row["step"] for row in rows if row["stage"] == "ppo"] == PPO_STEPS
    for row in rows:
        if row["stage"] == "ppo" and row["step"]:
            assert row["sync/probe_gap"] < 1e-4, "nats, generator against learner after the sync"
            assert row["rollout/logprob_absdiff_max"] < 1e-4


def test_vllm_says_of_every_answer_which_weights_gave_it(ended):
    files = sorted((ended.run_dir / "rollouts").glob("*.parquet"))
    assert len(files) == 3
    for iteration, file in enumerate(files):
        rows = pq.read_table(file).to_pylist()
        assert len(rows) == 16
        assert {(row["version_first"], row["version_last"]) for row in rows} == {(iteration, iteration)}


def test_the_rest_of_the_run_directory_is_there(ended):
    for name in ("summary.json", "lineage.json", "curves.png"):
        assert (ended.run_dir / name).stat().st_size > 100, name
    for name in ("sft-policy", "reward-model", "policy"):
        read_artifact(ended.run_dir / "artifacts" / name, verify=True)
    for stage in ("sft", "reward_model", "ppo"):
        assert (ended.run_dir / "checkpoints" / stage / "latest").is_file()


def test_the_model_loads_with_transformers(ended):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = ended.run_dir / "artifacts" / "policy"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("The film was", return_tensors="pt")
    written = model.generate(input_ids=inputs["input_ids"], max_new_tokens=8, do_sample=False)
    assert written.shape[1] > inputs["input_ids"].shape[1]


@pytest.mark.slow
def test_the_model_loads_in_vllm_and_writes_the_same(ended, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = ended.run_dir / "artifacts" / "policy"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("The film was")["input_ids"]
    import torch

    ours = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :].tolist()
    code = (
        "import json, sys; from vllm import LLM, SamplingParams; from vllm.inputs import TokensPrompt;"
        "llm = LLM(model=sys.argv[1], dtype='float32', enforce_eager=True, max_model_len=64,"
        " kv_cache_memory_bytes=1 << 28);"
        "ids = json.loads(sys.argv[2]);"
        "out = llm.generate([TokensPrompt(prompt_token_ids=ids)], SamplingParams(temperature=0, max_tokens=8));"
        "print(json.dumps(list(out[0].outputs[0].token_ids)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(folder), json.dumps(ids)],
        cwd=tmp_path,
        env=os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout.splitlines()[-1]) == ours


def test_no_process_and_no_shared_memory_is_left(ended):
    assert soon(lambda: not marked(ended.mark), within_s=20), [process.cmdline() for process in marked(ended.mark)]
    mapped = "\n".join(maps.read_text() for maps in living_maps())
    new = {name for name in shared_memory() - ended.segments if name not in mapped}
    assert new == set()


def living_maps() -> list[Path]:
    """What processes that may be read have mapped: segments of others are no leftovers of ours."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            maps.read_text()
        except OSError:
            continue
        found.append(maps)
    return found
