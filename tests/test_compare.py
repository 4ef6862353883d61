"""python -m rlhf_ray.compare on runs written by hand."""

import csv
import json

import numpy as np
import pytest
from browser import CHROMIUM, visit
from matplotlib.image import imread

from rlhf_ray.compare import main, read_comparison
from rlhf_ray.errors import DataError
from rlhf_ray.files.lock import FolderLock
from rlhf_ray.tracking.comparison import interval
from rlhf_ray.tracking.comparison_page import MAX_POINTS, curves_chart, thinned
from rlhf_ray.tracking.run_curves import Curve, find_runs, read_curves
from rlhf_ray.tracking.run_style import BLUE, GREEN, PINK, RED, VERMILION, run_styles

SETTINGS = {"seed": 1, "run_dir": "x", "algorithm": {"kl_coef": 0.05}, "tracking": {"backend": "local"}}


def write_run(folder, *, seed, rows, status="finished", error=None, kl_coef=0.05):
    folder.mkdir(parents=True)
    settings = SETTINGS | {"seed": seed, "run_dir": str(folder), "algorithm": {"kl_coef": kl_coef}}
    run = {"id": folder.name, "seed": seed, "status": status, "error": error, "config": settings}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def ppo(values, name="objective/kl", **last):
    rows = [{"stage": "ppo", "step": step, name: value} for step, value in enumerate(values, start=1)]
    rows[-1] |= last
    return rows


def wave(offset, num_steps=40):
    """A noisy climb that differs a little from seed to seed."""
    return [0.1 * step + 0.05 * np.sin(step + offset) for step in range(num_steps)]


def test_means_inter_quartile_means_and_intervals_are_over_the_seeds_that_finished(tmp_path):
    for seed, value in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 10.0)):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo([0.0, value]))
    write_run(tmp_path / "5", seed=5, rows=ppo([0.0, 99.0]), status="failed", error="DivergedError: nan")
    comparison = read_comparison(find_runs([tmp_path]))
    (group,) = comparison.groups
    (figure,) = comparison.figures[group.name]
    assert (figure.metric, figure.mean, figure.iqm) == ("objective/kl", 4.0, 2.5)
    assert figure.values == (1.0, 2.0, 3.0, 10.0, 99.0)
    assert figure.low is not None
    assert figure.high is not None
    assert 1.0 <= figure.low < 4.0 < figure.high <= 10.0
    assert [(run.run_id, run.error) for run in comparison.failed] == [("5", "DivergedError: nan")]


def test_an_interval_is_the_same_every_time_and_needs_two_values():
    values = np.array([1.0, 2.0, 4.0])
    assert interval(values) == interval(values)
    assert interval(np.array([1.0])) == (None, None)
    assert interval(np.array([2.0, 2.0])) == (2.0, 2.0)


def test_runs_are_grouped_by_all_settings_but_the_seed(tmp_path):
    for seed in (2, 1):
        for kl_coef in (0.05, 0.1):
            write_run(tmp_path / f"{seed}-{kl_coef}", seed=seed, kl_coef=kl_coef, rows=ppo([1.0]))
    comparison = read_comparison(find_runs([tmp_path]))
    assert {group.name: [run.seed for run in group.runs] for group in comparison.groups} == {
        "algorithm.kl_coef=0.05": [1, 2],
        "algorithm.kl_coef=0.1": [1, 2],
    }
    assert comparison.differing == {"seed": (1, 2, 1, 2), "algorithm.kl_coef": (0.05, 0.05, 0.1, 0.1)}


def test_a_run_that_leaves_its_group_is_named_with_the_iteration(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(wave(seed)))
    runaway = wave(4)
    runaway[24:] = [value + 5.0 for value in runaway[24:]]
    write_run(tmp_path / "4", seed=4, rows=ppo(runaway))
    (left,) = read_comparison(find_runs([tmp_path])).leaving
    assert (left.run_id, left.metric, left.iteration, left.back) == ("4", "objective/kl", 25, None)
    assert left.value == pytest.approx(runaway[24])


def test_a_run_that_comes_back_is_named_with_both_iterations(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(wave(seed)))
    astray = wave(4)
    astray[9:15] = [value + 5.0 for value in astray[9:15]]
    write_run(tmp_path / "4", seed=4, rows=ppo(astray))
    (left,) = read_comparison(find_runs([tmp_path])).leaving
    assert (left.iteration, left.back) == (10, 16)


def test_seeds_that_end_a_little_apart_have_not_left(tmp_path):
    """Four curves of one shape: three agree by chance, and the fourth ends a fifth lower than they."""
    for seed, height in ((1, 1.44), (2, 1.35), (3, 1.34), (4, 1.15)):
        rise = [height * (1 - 0.8**step) + 0.01 * (-1) ** step for step in range(30)]
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(rise))
    assert read_comparison(find_runs([tmp_path])).leaving == ()


def test_a_run_that_learned_nothing_has_left(tmp_path):
    for seed, height in ((1, 1.44), (2, 1.35), (3, 1.34), (4, 0.0)):
        rise = [height * (1 - 0.8**step) + 0.01 * (-1) ** step for step in range(30)]
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(rise))
    assert {left.seed for left in read_comparison(find_runs([tmp_path])).leaving} == {4}


def test_one_spike_is_no_leaving_and_agreement_is_no_yardstick(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(wave(0)))
    spiky = wave(0.3)
    spiky[10] += 50.0
    write_run(tmp_path / "4", seed=4, rows=ppo(spiky))
    assert read_comparison(find_runs([tmp_path])).leaving == ()


def test_a_value_that_is_not_finite_leaves_too(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo(wave(seed)))
    rows = ppo(wave(3))
    rows[6] |= {"objective/kl": None, "objective/kl/nonfinite": "nan"}
    write_run(tmp_path / "3", seed=3, rows=rows)
    (left,) = read_comparison(find_runs([tmp_path])).leaving
    assert (left.seed, left.iteration, left.value) == (3, 7, None)


def test_accuracy_and_win_rate_are_correlated_over_the_runs_that_finished(tmp_path):
    for seed, accuracy in enumerate((0.7, 0.8, 0.9), start=1):
        last = {"reward_model/val_accuracy": accuracy, "eval/win_rate": accuracy / 2}
        write_run(tmp_path / str(seed), seed=seed, rows=ppo([1.0], **last))
    last = {"reward_model/val_accuracy": 0.1, "eval/win_rate": 0.99}
    write_run(tmp_path / "4", seed=4, rows=ppo([1.0], **last), status="failed", error="OSError: disk full")
    found = read_comparison(find_runs([tmp_path])).correlation
    assert found is not None
    assert (found.pearson, found.pairs) == (pytest.approx(1.0), 3)


def test_of_a_metric_of_several_stages_ppos_counts_and_a_cut_line_is_left_out(tmp_path):
    rows = [
        {"stage": "reward_model", "step": 10, "reward_model/val_accuracy": 0.5, "reward_model/loss": 0.6},
        {"stage": "ppo", "step": 1, "reward_model/val_accuracy": 0.9, "objective/kl": 1},
        {"stage": "ppo", "step": 2, "objective/kl": 2.5},
    ]
    write_run(tmp_path / "1", seed=1, rows=rows)
    with (tmp_path / "1" / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "ppo", "st')
    run = read_curves(tmp_path / "1")
    assert (run.last("reward_model/val_accuracy"), run.last("reward_model/loss")) == (0.9, 0.6)
    assert run.curves["objective/kl"].steps.tolist() == [1.0, 2.0]
    assert run.curves["objective/kl"].values.tolist() == [1.0, 2.5]


def test_a_run_without_a_row_is_still_told_of(tmp_path):
    write_run(tmp_path / "1", seed=1, rows=[], status="failed", error="ResourceError: no room")
    comparison = read_comparison(find_runs([tmp_path]))
    assert [run.error for run in comparison.failed] == ["ResourceError: no room"]


def test_spikes_survive_thinning():
    values = np.zeros(50_000)
    values[31_234], values[7] = 9.0, -9.0
    kept = thinned(Curve(steps=np.arange(50_000.0), values=values))
    assert len(kept.steps) <= MAX_POINTS
    assert (max(kept.values), min(kept.values)) == (9.0, -9.0)
    assert kept.steps[kept.values.argmax()] == 31_234


def test_page_table_and_csv_are_written(tmp_path, capsys):
    for seed in (1, 2):
        last = {"eval/win_rate": 0.9, "objective/rlhf_reward": 1.0 + seed}
        write_run(tmp_path / "sweep" / str(seed), seed=seed, rows=ppo([0.5, 1.5], **last))
    write_run(tmp_path / "sweep" / "3", seed=3, rows=ppo([0.5]), status="failed", error="OSError: <disk> full")
    assert main([str(tmp_path / "sweep"), "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "eval/win_rate" in told
    assert "3 (seed 3) failed: OSError: <disk> full" in told
    assert told.splitlines()[-2:] == [f"wrote {tmp_path}/out/compare.html", f"wrote {tmp_path}/out/compare.csv"]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "OSError: &lt;disk&gt; full" in page
    assert 'src="http' not in page, "nothing is fetched"
    with (tmp_path / "out" / "compare.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "objective/rlhf_reward"]
    assert [(row["seed"], row["status"], row["value"], row["mean"]) for row in rows] == [
        ("1", "finished", "2.0", "2.5"),
        ("2", "finished", "3.0", "2.5"),
        ("3", "failed", "", "2.5"),
    ]


def test_a_path_without_runs_is_refused_with_code_2(tmp_path, capsys):
    with pytest.raises(DataError, match="is no run and holds none"):
        find_runs([tmp_path])
    assert main([str(tmp_path)]) == 2
    assert "is no run and holds none" in capsys.readouterr().err


def test_the_page_lies_beside_the_runs_where_no_other_place_is_named(tmp_path, capsys):
    write_run(tmp_path / "sweep" / "1", seed=1, rows=ppo([0.5, 1.5]))
    assert main([str(tmp_path / "sweep")]) == 0
    assert "IQM" in capsys.readouterr().out
    assert main([str(tmp_path / "sweep" / "1")]) == 0
    assert sorted(path.name for path in (tmp_path / "sweep").iterdir()) == ["1", "compare.csv", "compare.html"]


def test_a_run_that_cannot_be_read_is_told_and_the_others_are_compared(tmp_path, capsys):
    write_run(tmp_path / "1", seed=1, rows=ppo([0.5, 1.5]))
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "run.json").write_text("{cut")
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "run.json").write_text("[]")
    assert main([str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"left out: {tmp_path}/2/run.json cannot be read" in told
    assert f"left out: {tmp_path}/3/run.json" in told
    assert main([str(tmp_path / "2")]) == 2


def test_a_run_whose_process_is_gone_was_killed_and_one_that_goes_on_was_not(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), seed=seed, rows=ppo([0.5]), status="running")
    lock = FolderLock(tmp_path / "2")
    comparison = read_comparison(find_runs([tmp_path]))
    assert [(run.run_id, run.status) for run in comparison.runs] == [("1", "killed"), ("2", "running")]
    assert [run.run_id for run in comparison.failed] == ["1"]
    lock.release()


def test_where_a_run_is_not_finite_its_cross_stands_at_its_newest_value(tmp_path):
    rows = ppo([1.0, 2.0, 3.0])
    rows[1] |= {"objective/kl": None, "objective/kl/nonfinite": "nan"}
    write_run(tmp_path / "1", seed=1, rows=rows)
    comparison = read_comparison(find_runs([tmp_path]))
    (cross,) = [line for line in curves_chart(comparison).data if line.name == "leaves its group"]
    assert (list(cross.x), list(cross.y)) == ([2], [1.0])


def test_seeds_have_colours_and_groups_have_lines(tmp_path):
    for kl_coef in (0.05, 0.1):
        for seed in (1, 2):
            write_run(tmp_path / f"{seed}-{kl_coef}", seed=seed, kl_coef=kl_coef, rows=ppo([1.0, 2.0]))
    styles = run_styles(read_comparison(find_runs([tmp_path])).groups)
    assert [(style.colour, style.dash) for style in styles] == [
        (BLUE, "solid"),
        (VERMILION, "solid"),
        (BLUE, "dash"),
        (VERMILION, "dash"),
    ]
    assert styles[3].label == "seed 2, algorithm.kl_coef=0.1"


def test_the_picture_is_drawn_with_every_seed_and_the_cross(tmp_path, capsys):
    for seed in (1, 2, 3):
        last = {"reward_model/val_accuracy": 0.9 + seed / 100, "eval/win_rate": 0.8}
        write_run(tmp_path / "sweep" / str(seed), seed=seed, rows=ppo(wave(seed), **last))
    runaway = wave(4)
    runaway[24:] = [value + 50.0 for value in runaway[24:]]
    write_run(tmp_path / "sweep" / "4", seed=4, rows=ppo(runaway))
    picture = tmp_path / "seeds.png"
    assert main([str(tmp_path / "sweep"), "--picture", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {picture}"
    image = np.round(imread(picture)[..., :3] * 255).astype(int)
    for colour in (BLUE, VERMILION, GREEN, PINK, RED):
        wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
        assert (np.abs(image - wanted).max(axis=-1) <= 2).sum() > 150, colour


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: make browser installs it")
def test_a_browser_draws_the_page_without_a_word(tmp_path):
    for seed in (1, 2, 3):
        last = {"objective/rlhf_reward": 1.0 * seed, "reward_model/val_accuracy": 0.9, "eval/win_rate": 0.8}
        write_run(tmp_path / "sweep" / str(seed), seed=seed, rows=ppo(wave(seed), **last))
    assert main([str(tmp_path / "sweep")]) == 0
    seen = visit(tmp_path / "sweep" / "compare.html", tmp_path / "profile")
    assert seen.console == []
    assert seen.dom.count('class="main-svg"') >= 2
    for words in ("What is maximised", "Distance from the start", "seed 3", "iteration"):
        assert words in seen.dom
