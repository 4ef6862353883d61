import io
import json
from pathlib import Path

from rich.console import Console

from rlhf_ray.tracking.summary import Places, ShownAnswer, print_summary, summarise, write_summary

ROWS = [
    {"stage": "sft", "step": 200, "sft/loss": 1.0},
    {"stage": "reward_model", "step": 100, "reward_model/val_accuracy": 0.7},
    {
        "stage": "reward_model",
        "step": 200,
        "reward_model/val_accuracy": 0.8,
        "reward_model/val_accuracy_clear": 0.875,
        "reward_model/score_ceiling": 2.25,
    },
    {"stage": "ppo", "step": 0, "eval/gold_score": 0.02, "eval/proxy_score": 0.0, "eval/kl": 0.0, "eval/win_rate": 0.5},
    {"stage": "ppo", "step": 10, "objective/kl": 3.0, "eval/gold_score": 0.5},
    {
        "stage": "ppo",
        "step": 20,
        "objective/kl": 6.0,
        "eval/gold_score": 0.875,
        "eval/proxy_score": 2.0,
        "eval/kl": 6.5,
        "eval/win_rate": 0.9,
        "eval/win_rate_low": 0.85,
        "eval/win_rate_high": 0.95,
        "eval/distinct_2": None,
    },
    {"stage": "ppo", "step": 21, "objective/kl": 6.0},
]
ANSWERS = [ShownAnswer(prompt="The soup", before=" was cold [sic].", after=" was wonderful.")]
PLACES = Places(model=Path("out/artifacts/policy"), records=Path("out"))


def summary_of(rows):
    return summarise(rows, answers=ANSWERS, seconds={"sft": 60.0, "ppo": 125.0}, places=PLACES)


def printed(summary):
    console = Console(file=io.StringIO(), width=100)
    print_summary(summary, console)
    return console.file.getvalue()


def line_with(text, label):
    return next(line for line in text.splitlines() if label in line)


def test_before_is_the_first_evaluation_and_after_the_last():
    summary = summary_of(ROWS)
    assert summary["before"] == {
        "eval/gold_score": 0.02,
        "eval/proxy_score": 0.0,
        "eval/win_rate": 0.5,
        "eval/kl": 0.0,
    }
    assert summary["after"]["eval/gold_score"] == 0.875
    assert summary["after"]["eval/win_rate_high"] == 0.95
    assert summary["reward_model"] == {
        "reward_model/val_accuracy": 0.8,
        "reward_model/val_accuracy_clear": 0.875,
        "reward_model/score_ceiling": 2.25,
    }
    assert (summary["iterations"], summary["model"], summary["records"]) == (21, "out/artifacts/policy", "out")


def test_the_tables_show_figures_answers_times_and_places():
    text = printed(summary_of(ROWS))
    assert "before and after 21 iterations" in text
    assert line_with(text, "gold score").split("│")[2:4] == [" +0.020 ", "                 +0.875 "]
    assert "90.0% (85.0% to 95.0%)" in line_with(text, "win rate")
    assert "80.0%" in line_with(text, "held-out pairs")
    assert "The soup" in text
    assert "before was cold [sic]." in text
    assert "after  was wonderful." in text
    assert "sft 1:00, ppo 2:05, all stages 3:05" in text
    assert "out/artifacts/policy" in text
    assert "\x1b" not in text


def test_an_empty_answer_is_named():
    assert "after  (empty)" in printed({"answers": [{"prompt": "The soup", "before": " was cold.", "after": " "}]})


def test_what_was_not_measured_is_left_out():
    rows = [{name: value for name, value in row.items() if "gold" not in name} for row in ROWS if row["stage"] == "ppo"]
    summary = summary_of(rows)
    assert "reward_model" not in summary
    text = printed(summary)
    assert "gold score" not in text
    assert "Reward model" not in text
    assert "distinct bigrams" not in text


def test_a_run_without_ppo_still_has_its_times_and_places():
    summary = summarise(ROWS[:1], answers=[], seconds={"sft": 60.0}, places=Places(model=None, records=Path("out")))
    assert summary == {"seconds": {"sft": 60.0}, "records": "out"}
    assert "all stages 1:00" in printed(summary)


def test_an_evaluation_of_zero_is_not_taken_for_an_absent_one():
    rows = [{"stage": "ppo", "step": 0, "eval/kl": 0.0}, {"stage": "ppo", "step": 1, "eval/kl": 0.0}]
    summary = summary_of(rows)
    assert summary["after"] == {"eval/kl": 0.0}
    assert "0.00" in line_with(printed(summary), "KL to the start")


def test_the_file_holds_the_same(tmp_path):
    summary = summary_of(ROWS)
    write_summary(tmp_path, summary)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
