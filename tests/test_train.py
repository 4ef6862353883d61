"""The program as it is called: exit codes, messages, and what it imports."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_ray.train import parse

PROGRAM = (sys.executable, "-m", "rlhf_ray.train")
TRACEBACK = "Traceback"


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_mistake_ends_with_code_2_one_message_and_nothing_written(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call(tmp_path, "algo.kl_coeff=0.1", "hydra.rnu.dir=x")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "error: 2 problems"
    assert "did you mean algorithm.kl_coef?" in result.stderr
    assert "did you mean hydra.run.dir" in result.stderr
    assert TRACEBACK not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []
    # processor time: the wall clock of a busy machine says nothing about the program
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5


@pytest.mark.parametrize("words", [["seed=x"], ["model.path=nowhere"], ["dry_run=true"], ["resume=nowhere"]])
def test_checks_import_no_heavy_library(tmp_path, words):
    code = (
        "import sys; from rlhf_ray.train import main; code = main(sys.argv[1:]);"
        "print(code, *sorted({'torch', 'ray', 'vllm', 'transformers', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.splitlines()[-1] == ("0" if words == ["dry_run=true"] else "2")


def test_a_dry_run_warns_and_tells_where_it_would_run(tmp_path):
    result = call(tmp_path, "dry_run=true", "algorithm.epochs=20", "experiment=tiny_test")
    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        "warning: algorithm.epochs=20 is outside the usual range 1..10: many passes overfit old answers"
    ]
    name = re.escape(str(tmp_path / "outputs/tiny_test")) + r"/\d{8}-\d{6}-[0-9a-f]{8}\n"
    assert re.fullmatch(f"nothing is wrong; stages=sft,reward_model,ppo would run in {name}", result.stdout)
    assert list(tmp_path.iterdir()) == []


def test_the_composed_config_is_shown(tmp_path):
    result = call(tmp_path, "--cfg", "job", "-p", "algorithm", "algorithm.clip=0.3")
    assert result.returncode == 0
    assert "clip: 0.3\n" in result.stdout
    assert "num_iterations: 20\n" in result.stdout
    assert call(tmp_path, "--cfg", "job", "algorithm.clp=0.3").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_help_lists_choices_and_settings(tmp_path):
    result = call(tmp_path, "--help")
    assert result.returncode == 0
    assert "generator: hf, vllm\n" in result.stdout
    assert "learning_rate: 0.0005\n" in result.stdout


def test_an_unknown_option_ends_with_code_2():
    with pytest.raises(SystemExit) as caught:
        parse(["--mutlirun"])
    assert caught.value.code == 2


def test_options_may_stand_anywhere():
    line = parse(["seed=1,2", "-m", "stages=[sft]"])
    assert (line.words, line.multirun, line.shows) == (("seed=1,2", "stages=[sft]"), True, ())
    assert parse(["seed=1", "--cfg", "job", "stages=[sft]"]).shows == ("--cfg=job",)


def test_a_folder_of_ones_own_becomes_a_search_path(tmp_path):
    line = parse(["--config-dir", str(tmp_path), "experiment=mine"])
    assert line.words == (f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine")


def directories(text: str) -> list[str]:
    return re.findall(r"would run in (\S+)", text)


def test_a_refused_job_of_a_multirun_is_told_at_once_and_does_not_stop_the_others(tmp_path):
    result = call(tmp_path, "-m", "dry_run=true", "algorithm.clip=0.1,-0.2,0.2", "experiment=tiny_test")
    assert result.returncode == 1
    told = result.stderr
    assert told.index("job 1 (3 in all)") < told.index("error: algorithm.clip=-0.2") < told.index("job 2 (3 in all)")
    assert TRACEBACK not in told
    assert len(set(directories(result.stdout))) == 2
    assert [word for word in result.stdout.split() if word in ("finished", "refused")] == [
        "finished",
        "refused",
        "finished",
    ]


def test_a_value_that_does_not_compose_refuses_its_job_only(tmp_path):
    result = call(tmp_path, "-m", "dry_run=true", "generator=vlm,hf")
    assert result.returncode == 1
    assert "error: generator=vlm: accepted is one of hf, vllm" in result.stderr
    assert len(directories(result.stdout)) == 1


def test_multiruns_started_together_never_share_a_directory(tmp_path):
    command = [*PROGRAM, "-m", "dry_run=true", "seed=1,2", "hydra.sweep.dir=all"]
    pair = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    found = [Path(name) for text in outputs for name in directories(text)]
    assert len(set(found)) == 4
    assert {name.parent for name in found} == {tmp_path / "all"}


def test_a_launcher_of_hydras_runs_the_jobs_with_the_same_checks(tmp_path):
    result = call(tmp_path, "-m", "hydra/launcher=basic", "dry_run=true", "seed=1,2")
    assert result.returncode == 0, result.stderr
    assert len(set(directories(result.stdout))) == 2
    refused = call(tmp_path, "-m", "hydra/launcher=basic", "dry_run=true", "sed=1,2")
    assert refused.returncode == 2
    assert "did you mean seed?" in refused.stderr
    failed = call(tmp_path, "-m", "hydra/launcher=basic", "dry_run=true", "algorithm.clip=-0.2,0.2")
    assert failed.returncode == 2
    assert TRACEBACK not in failed.stderr
    assert len(directories(failed.stdout)) == 1


def test_paths_are_taken_from_where_the_program_is_started(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"question": "x"}\n')
    result = call(tmp_path, "stages=[ppo]", "model.path=policy", "reward.path=reward", "data.prompts=prompts.jsonl")
    assert result.returncode == 2
    assert f"model.path: {tmp_path / 'policy'} does not exist" in result.stderr
    assert f"data.prompts: {tmp_path / 'prompts.jsonl'}: no usable row" in result.stderr


def test_settings_for_torch_are_in_the_environment_before_it_loads(tmp_path):
    code = (
        "import os; from rlhf_ray.train import main; main(['dry_run=true']);"
        "print(os.environ['OMP_WAIT_POLICY'], os.environ['TOKENIZERS_PARALLELISM'], os.environ['HF_HUB_OFFLINE'])"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "HF_HUB_OFFLINE")}
    environment["TOKENIZERS_PARALLELISM"] = "true"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "PASSIVE true 1", "what the user has set stays"
