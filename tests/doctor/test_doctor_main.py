"""The program as it is called."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from doctor_cases import LOGS, ramp

from rlhf_ray.doctor.__main__ import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


Doctor = Callable[..., Result]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """The program in this process."""

    def run(*arguments: str | Path) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        return Result(code, *capsys.readouterr())

    return run


def called(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlhf_ray.doctor", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    rows = [{"step": i, "objective/scores": s, "objective/kl": 2 * s} for i, s in enumerate(ramp(0, 2, 30), start=1)]
    (tmp_path / "healthy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "healthy.jsonl"


def test_exit_codes(doctor: Doctor, healthy: Path, tmp_path: Path) -> None:
    assert doctor(healthy).returncode == 0
    assert doctor(LOGS / "frozen.jsonl").returncode == 1
    assert doctor(LOGS / "divergence.csv").returncode == 2
    assert doctor(tmp_path / "nothing").returncode == 3
    assert doctor(LOGS / "divergence.csv", healthy, tmp_path / "nothing").returncode == 3
    assert doctor("--colour", healthy).returncode == 3


def test_an_unreadable_path_is_an_error_in_words(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(os.urandom(2000) + b"\0")
    result = doctor(tmp_path / "garbage")
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_the_readable_paths_are_told_beside_an_unreadable_one(doctor: Doctor, healthy: Path, tmp_path: Path) -> None:
    result = doctor(tmp_path / "nothing", healthy)
    assert "VERDICT  healthy" in result.stdout
    assert "nothing does not exist" in result.stderr


def test_json_is_a_list_of_diagnoses(doctor: Doctor, healthy: Path) -> None:
    one, two = json.loads(doctor("--json", healthy, LOGS / "divergence.csv").stdout)
    assert (one["severity"], two["severity"]) == ("healthy", "critical")


def test_a_map_explains_a_column(doctor: Doctor, tmp_path: Path) -> None:
    rows = "T,Beliebtheit,KL\n" + "".join(f"{1000 * i},{i},{20 * i}\n" for i in range(1, 5))
    (tmp_path / "a.csv").write_text(rows)
    result = doctor("--map", "Beliebtheit=objective/scores", "--map", "T=step", tmp_path / "a.csv")
    assert "Beliebtheit = objective/scores (--map)" in result.stdout
    assert "from ppo step 2000" in result.stdout
    assert doctor("--map", "Nichts=objective/scores", tmp_path / "a.csv").returncode == 3


def test_rules_of_ones_own_change_the_verdict(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("kl_stuck.zero: {points: 1000}\n")
    assert doctor("--rules", tmp_path / "mine.yaml", LOGS / "frozen.jsonl").returncode == 0
    (tmp_path / "bad.yaml").write_text("nothing: {a: 1}\n")
    assert doctor("--rules", tmp_path / "bad.yaml", LOGS / "frozen.jsonl").returncode == 3


def run_dir(folder: Path, *, status: str, rules: Path | None) -> Path:
    """A run in which nothing moves: kl_stuck by the built-in rules."""
    folder.mkdir()
    (folder / "metrics.jsonl").write_bytes((LOGS / "frozen.jsonl").read_bytes())
    config = {"doctor": {"rules": None if rules is None else str(rules)}}
    record = {"status": status, "error": "ModelError: no head", "config": config}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_a_run_is_judged_by_the_rules_that_it_used_itself(doctor: Doctor, tmp_path: Path) -> None:
    own, other = tmp_path / "own.yaml", tmp_path / "other.yaml"
    own.write_text("kl_stuck.zero: {points: 1000}\n")
    other.write_text("{}\n")
    run = run_dir(tmp_path / "run", status="finished", rules=own)
    result = doctor(run)
    assert result.returncode == 0
    assert "which the run used" in " ".join(result.stdout.split())
    assert doctor("--rules", other, run).returncode == 1
    own.unlink()
    result = doctor(run)
    assert result.returncode == 1
    assert "is not there any more" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("running", "still goes on, or was killed"),
        ("failed", "the run failed: ModelError: no head"),
        ("preempted", "ended from outside before its end"),
    ],
)
def test_a_run_that_has_not_come_to_its_end_is_told(doctor: Doctor, tmp_path: Path, status: str, words: str) -> None:
    assert words in doctor(run_dir(tmp_path / "run", status=status, rules=None)).stdout


def test_answers_are_not_taken_for_a_log(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "rollouts.jsonl").write_text('{"prompt": "Why", "response": "So", "score": 1.0}\n' * 3)
    result = doctor(tmp_path / "rollouts.jsonl")
    assert result.returncode == 3
    assert "holds answers (prompt, response), not metrics" in result.stderr


def test_the_program_loads_neither_torch_nor_ray() -> None:
    program = (
        "import sys; from rlhf_ray.doctor.__main__ import main; import rlhf_ray.doctor.online, rlhf_ray.doctor.actions;"
        f"main([{str(LOGS / 'unstable.jsonl')!r}]);"
        "sys.exit(bool({'torch', 'ray', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_ten_thousand_steps_take_less_than_two_seconds_of_computing(tmp_path: Path) -> None:
    names = (
        "objective/kl",
        "objective/scores",
        "policy/entropy_avg",
        "loss/value_avg",
        "policy/grad_norm",
        "val/ratio",
    )
    rows = ({"step": i} | dict.fromkeys(names, 1.0 + (i * 7919 % 101) / 1000) for i in range(1, 10_001))
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    begin = os.times()
    assert called(tmp_path / "long.jsonl").returncode == 0
    end = os.times()
    used = end.children_user + end.children_system - begin.children_user - begin.children_system
    assert used < 2.0


def test_ctrl_c_while_reading_ends_in_a_word() -> None:
    """The interrupt comes when the log is opened."""
    program = (
        "import os, signal, sys\n"
        "from rlhf_ray.doctor.__main__ import main\nfrom rlhf_ray.doctor.program import run_program\n"
        "sys.addaudithook(lambda name, found: name == 'open' and str(found[0]).endswith('.csv')"
        " and os.kill(os.getpid(), signal.SIGINT))\n"
        f"sys.exit(run_program(main, [{str(LOGS / 'divergence.csv')!r}]))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_a_reader_that_stops_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "rlhf_ray.doctor", str(LOGS / "divergence.csv")]
    ended = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_names_that_no_terminal_can_show_are_told_all_the_same(tmp_path: Path) -> None:
    log = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.csv"))
    log.write_text("step,kl,\N{SNOWMAN}\n1,0.5,1\n2,1,2\n")
    command = [sys.executable, "-m", "rlhf_ray.doctor", log]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "VERDICT  healthy" in ended.stdout


@pytest.mark.slow
def test_a_million_rows_are_read(doctor: Doctor, tmp_path: Path) -> None:
    with (tmp_path / "huge.csv").open("w") as file:
        file.write("step,kl,reward\n")
        file.writelines(f"{i},{i % 5},1.{i % 9}\n" for i in range(1_000_000))
    result = doctor("--json", tmp_path / "huge.csv")
    assert result.returncode == 0
    assert json.loads(result.stdout)[0]["num_steps"] == 1_000_000
