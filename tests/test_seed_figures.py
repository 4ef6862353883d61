"""The table and the picture of several seeds are made from run directories by one command."""

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "seed_figures.py"
MARKS = "before\n<!-- seed figures: begin -->\nstale\n<!-- seed figures: end -->\nafter\n"
MAIN = runpy.run_path(str(SCRIPT))["main"]


def write_run(folder: Path, *, seed: int, status: str = "finished", gold: float = 0.5) -> Path:
    folder.mkdir()
    run = {"seed": seed, "status": status}
    rows = [
        {"stage": "ppo", "step": 0, "eval/gold_score": 0.0, "eval/win_rate": 0.5},
        {"stage": "ppo", "step": 1, "objective/scores": 1.0},
        {
            "stage": "ppo",
            "step": 2,
            "eval/gold_score": gold,
            "eval/win_rate": 0.75,
            "eval/win_rate_low": 0.7,
            "eval/win_rate_high": 0.8,
        },
    ]
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def call(tmp_path: Path, *run_dirs: Path, page: str = MARKS) -> tuple[int, str]:
    (tmp_path / "page.md").write_text(page)
    paths = ["--page", str(tmp_path / "page.md"), "--picture", str(tmp_path / "seeds.png")]
    return MAIN([*map(str, run_dirs), *paths]), (tmp_path / "page.md").read_text()


def test_the_page_gets_a_column_a_seed_and_the_picture_is_drawn(tmp_path):
    runs = [write_run(tmp_path / "a", seed=1), write_run(tmp_path / "b", seed=7, gold=-0.25)]
    code, page = call(tmp_path, *runs)
    assert code == 0
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    table = {label: cells for label, *cells in lines}
    assert table[""] == ["seed 1", "seed 7"]
    assert table["gold score, before → after"] == ["+0.000 → +0.500", "+0.000 → -0.250"]
    assert table["win rate against the start (95 % interval)"] == ["75.0% (70.0% to 80.0%)"] * 2
    assert table["KL to the start, nats per answer"] == ["-", "-"], "what was not measured is no number"
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "stale" not in page
    assert (tmp_path / "seeds.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_call_changes_nothing(tmp_path):
    run = write_run(tmp_path / "a", seed=1)
    _, page = call(tmp_path, run)
    assert call(tmp_path, run, page=page) == (0, page)


@pytest.mark.parametrize("status", ["running", "failed", "preempted"])
def test_a_run_that_did_not_finish_makes_no_figures(tmp_path, capsys, status):
    code, page = call(tmp_path, write_run(tmp_path / "a", seed=1, status=status))
    assert (code, page) == (2, MARKS)
    assert f"the run is {status}" in capsys.readouterr().err


def test_two_runs_of_one_seed_are_refused(tmp_path, capsys):
    code, _ = call(tmp_path, write_run(tmp_path / "a", seed=3), write_run(tmp_path / "b", seed=3))
    assert code == 2
    assert "[3, 3]" in capsys.readouterr().err


def test_a_page_without_marks_is_left_alone(tmp_path, capsys):
    code, page = call(tmp_path, write_run(tmp_path / "a", seed=1), page="no marks\n")
    assert (code, page) == (2, "no marks\n")
    assert "seed figures: begin" in capsys.readouterr().err
