"""Every command of README.md is run here, with small settings; every example row and every piece of Python works.

A command that EXECUTED does not know fails the first test: it says how to run it.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN_DIRECTORY_PAGE = (ROOT / "docs" / "run-directory.md").read_text(encoding="utf-8")
TRAIN = "python -m rlhf_ray.train"
SMALL = "experiment=tiny_test generator=hf placement=local"
RESUME = f"{TRAIN} resume=RUN_DIRECTORY"
DOCTOR = "python -m rlhf_ray.doctor RUN_DIRECTORY"
REPORT = "python -m rlhf_ray.report RUN_DIRECTORY"
FIGURES = "python benchmarks/seed_figures.py RUN_DIRECTORY RUN_DIRECTORY RUN_DIRECTORY"
OWN_MODELS = f"{TRAIN} 'stages=[ppo]' model.path=DIR reward.path=DIR data.prompts=FILE"

# command -> what is appended to it; the rest of it is run as it stands
EXECUTED = {
    # without another installation, which is what .ci/run begins with
    "make train": f"-o setup ARGS='{SMALL}'",
    "make test": "-o setup-dev ARGS=tests/config/test_spelling.py",
    "source .venv/bin/activate": "&& python -c 'import rlhf_ray'",
    OWN_MODELS: SMALL,
    f"{TRAIN} -m seed=1,2,3": "dry_run=true",
    RESUME: "",
    DOCTOR: "|| test $? -le 2",  # a run of seconds may well be warned of
    REPORT: "",
    FIGURES: "--page page.md --picture seeds.png",
    f"{TRAIN} --help": "",
    f"{TRAIN} --cfg job": "",
    f"{TRAIN} algorithm.kl_coef=0.02 dry_run=true": "",
    f"{TRAIN} {SMALL}": "",
    f"{TRAIN} experiment=tiny_test": "",
}
WITH_VLLM = (f"{TRAIN} experiment=tiny_test",)  # a minute on a busy machine


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


@dataclass(frozen=True)
class Place:
    """A folder to run commands in, with a finished run of `SMALL` beside it."""

    folder: Path
    finished: Path

    def call(self, command: str) -> str:
        """Both outputs of a README command with its appendix, run by a shell; it must succeed."""
        line = f"{command} {EXECUTED[command]}".replace("benchmarks/", f"{ROOT}/benchmarks/")
        environment = {
            key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        }
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        folder = ROOT if command.startswith(("make ", "source ")) else self.folder
        done = subprocess.run(
            ["bash", "-c", self.fill(line)], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout + done.stderr

    def fill(self, line: str) -> str:
        """Names in capitals stand for paths."""
        artifacts = self.finished / "artifacts"
        line = line.replace("model.path=DIR", f"model.path={artifacts / 'sft-policy'}")
        line = line.replace("reward.path=DIR", f"reward.path={artifacts / 'reward-model'}")
        line = line.replace("FILE", str(self.folder / "prompts.jsonl"))
        line = line.replace(f"ARGS='{SMALL}'", f"ARGS='{SMALL} run_dir={self.folder / 'made'}'")
        for name in ("first", "second", "third"):
            line = line.replace("RUN_DIRECTORY", str(self.folder / name), 1)
        return line


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory) -> Path:
    """A run directory with everything in it."""
    folder = tmp_path_factory.mktemp("small")
    printed = Place(folder, folder).call(f"{TRAIN} {SMALL}")
    assert "Held-out prompts, before and after 3 iterations" in printed
    (run_dir,) = (folder / "outputs" / "tiny_test").iterdir()
    return run_dir


@pytest.fixture
def place(tmp_path, finished_run) -> Place:
    return Place(tmp_path, finished_run)


def rows_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_every_command_of_the_readme_is_known_here_and_no_other():
    assert sorted(commands()) == sorted(EXECUTED)


@pytest.mark.parametrize("command", [f"{TRAIN} --help", f"{TRAIN} --cfg job"])
def test_settings_are_shown(place, command):
    assert "num_iterations: 20" in place.call(command)


def test_a_dry_run_checks_and_stops(place):
    assert "nothing is wrong" in place.call(f"{TRAIN} algorithm.kl_coef=0.02 dry_run=true")


def test_the_environment_is_activated(place):
    place.call("source .venv/bin/activate")


def test_make_test_runs_tests(place):
    assert re.search(r"\d+ passed", place.call("make test"))


def test_make_train_trains(place):
    place.call("make train")
    assert (place.folder / "made" / "artifacts" / "policy" / "model.safetensors").is_file()


def test_own_models_and_prompts_train_with_ppo_alone(place):
    rows = [json.dumps({"prompt": f"The hotel near Oslo, room {number}"}) for number in range(20)]
    (place.folder / "prompts.jsonl").write_text("\n".join(rows))
    place.call(OWN_MODELS)
    (run_dir,) = (place.folder / "outputs" / "tiny_test").iterdir()
    assert {row["stage"] for row in rows_of(run_dir)} == {"data", "ppo"}
    assert sorted(path.name for path in (run_dir / "artifacts").iterdir()) == ["policy"]


def test_one_word_makes_a_job_per_seed(place):
    assert place.call(f"{TRAIN} -m seed=1,2,3").count("would run in") == 3


def test_a_run_continued_from_its_last_checkpoint_ends_with_the_same_numbers(place):
    run_dir = place.folder / "first"
    shutil.copytree(place.finished, run_dir)
    shutil.rmtree(run_dir / "artifacts" / "policy")  # as if it had ended after the checkpoint of iteration 2
    shutil.rmtree(run_dir / "checkpoints" / "ppo" / "step-000003")
    (run_dir / "checkpoints" / "ppo" / "latest").write_text("step-000002\n")
    place.call(RESUME)
    before, after = rows_of(place.finished)[-1], rows_of(run_dir)[-1]
    compared = [name for name in before if name.startswith(("objective/", "loss/", "policy/", "val/", "eval/"))]
    assert len(compared) > 20
    assert {name: after[name] for name in compared} == {name: before[name] for name in compared}
    assert (run_dir / "artifacts" / "policy" / "model.safetensors").read_bytes() == (
        place.finished / "artifacts" / "policy" / "model.safetensors"
    ).read_bytes()


def test_doctor_and_report_read_a_run(place):
    shutil.copytree(place.finished, place.folder / "first")
    (place.folder / "first" / "report.html").unlink()
    assert "VERDICT" in place.call(DOCTOR)
    assert "report.html" in place.call(REPORT)
    assert (place.folder / "first" / "report.html").stat().st_size > 3_000_000


def test_figures_of_seeds_are_made_from_run_directories(place):
    for seed, name in enumerate(("first", "second", "third"), start=1):
        shutil.copytree(place.finished, place.folder / name)
        run = json.loads((place.folder / name / "run.json").read_text())
        (place.folder / name / "run.json").write_text(json.dumps(run | {"seed": seed}))
    (place.folder / "page.md").write_text("<!-- seed figures: begin -->\n<!-- seed figures: end -->\n")
    assert "seed 3" in place.call(FIGURES)
    assert "| gold score, before → after" in (place.folder / "page.md").read_text()
    assert (place.folder / "seeds.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("command", WITH_VLLM)
def test_a_small_run_goes_through_ray_and_vllm(place, command):
    place.call(command)
    (run_dir,) = (place.folder / "outputs" / "tiny_test").iterdir()
    assert json.loads((run_dir / "run.json").read_text())["status"] == "finished"


def test_the_python_example_continues_a_review(finished_run):
    (code,) = blocks("python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("RUN_DIRECTORY", str(finished_run)), "README.md", "exec"), {})
    assert printed.getvalue().startswith("The film Anna chose")


def test_example_rows_are_accepted(place):
    words = []
    for name, rows in zip(("prompts", "demonstrations", "preferences"), blocks("jsonl"), strict=True):
        (place.folder / f"{name}.jsonl").write_text(rows * 20, encoding="utf-8")
        words.append(f"data.{name}={name}.jsonl")
    model = place.finished / "artifacts" / "sft-policy"
    done = subprocess.run(
        [sys.executable, "-m", "rlhf_ray.train", "dry_run=true", f"model.path={model}", "experiment=tiny_test", *words],
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "nothing is wrong; stages=sft,reward_model,ppo" in done.stdout, done.stderr


def test_figures_of_three_seeds_and_their_picture_are_there():
    table = README.partition("<!-- seed figures: begin -->")[2].partition("<!-- seed figures: end -->")[0]
    assert re.findall(r"seed \d", table) == ["seed 1", "seed 2", "seed 3"]
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")


def named_in_run_directory_page(name: str) -> bool:
    """In backticks, alone or as the beginning of a path."""
    return re.search(rf"`(?:[\w/<>-]+/)?{re.escape(name)}[/`]", RUN_DIRECTORY_PAGE) is not None


def test_every_file_of_a_run_is_described(finished_run):
    names = [path.name for path in finished_run.iterdir()]
    names += [path.name for path in (finished_run / "artifacts").iterdir()]
    assert [name for name in names if not named_in_run_directory_page(name)] == []


def test_every_column_of_the_rollouts_is_described(finished_run):
    columns = pyarrow.parquet.read_schema(finished_run / "rollouts" / "step-000001.parquet").names
    assert [name for name in columns if f"`{name}`" not in RUN_DIRECTORY_PAGE] == []


@pytest.mark.parametrize(
    "file",
    [
        "run.json",
        "lineage.json",
        "summary.json",
        "artifacts/policy/artifact.json",
        "checkpoints/sft/step-000060/manifest.json",
    ],
)
def test_every_key_of_a_record_is_described(finished_run, file):
    keys = json.loads((finished_run / file).read_text())
    assert [key for key in keys if f"`{key}`" not in RUN_DIRECTORY_PAGE] == []
