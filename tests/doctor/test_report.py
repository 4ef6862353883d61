"""What the report tells, in text and in JSON."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from doctor_cases import LOGS, diagnosed, diagnosed_rows, ramp

from rlhf_ray.doctor.report import as_json, as_text, closing_line, sparkline


def text(name: str, *, width: int = 100) -> str:
    return as_text(diagnosed(LOGS / name), width=width)


def test_the_text_has_verdict_phases_findings_columns_and_what_was_not_checked() -> None:
    shown = text("divergence.csv")
    parts = ["VERDICT", "PHASES", "FINDINGS", "CURVES", "COLUMNS", "NOT CHECKED"]
    assert [shown.index(part) for part in parts] == sorted(shown.index(part) for part in parts)
    assert "Mean Reward = objective/scores (a name people use)" in shown
    assert "mode_collapse.entropy: needs policy/entropy_avg" in shown
    assert "risk: too much freezes the policy" in shown


def test_lines_keep_to_the_width() -> None:
    assert max(len(line) for line in text("unstable.jsonl", width=90).split("CURVES")[0].splitlines()) <= 90


def test_advice_is_given_once() -> None:
    assert text("divergence.csv").count("read 20 answers with the highest score") == 1


def test_a_sparkline_spans_eight_heights() -> None:
    assert sparkline(ramp(0, 7, 8)) == "▁▂▃▄▅▆▇█"
    assert sparkline([2.0, 2.0]) == "▁▁"


def test_json_holds_the_same_and_is_strict() -> None:
    record = as_json(diagnosed(LOGS / "divergence.csv"))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["severity"] == "critical"
    assert record["phases"][0]["severity"] == "watch"
    assert {"kind", "severity", "first_step", "evidence", "causes", "changes", "watch_next"} <= set(
        record["findings"][0]
    )
    assert record["taken"][0] == {"theirs": "Mean Reward", "ours": "objective/scores", "origin": "a name people use"}


def test_nan_is_null_in_json_and_said_in_text() -> None:
    diagnosis = diagnosed_rows([{"step": i, "loss/policy_avg": 0.1 if i < 5 else math.nan} for i in range(9)])
    assert as_json(diagnosis)["findings"][0]["evidence"][0]["after"] is None
    assert "loss/policy_avg 0.1 before, not finite from then on" in as_text(diagnosis, width=100)


def test_the_over_optimisation_fit_is_told_even_before_the_peak() -> None:
    # R = d (1 - 0.5 ln d): peak at d = e, KL = e^2 = 7.39, with gain e / 2 = 1.36
    rows = [{"step": 0, "eval/gold_score": 0.0, "eval/kl": 0.0, "objective/scores": 0.0}]
    for i, d in enumerate([0.5, 1.0, 1.5, 2.0, 2.5], start=1):
        gold = d * (1 - 0.5 * math.log(d))
        rows.append({"step": i, "eval/gold_score": gold, "eval/kl": d * d, "objective/scores": d})
    (estimate,) = diagnosed_rows(rows).estimates
    assert "best gold gain 1.36 at KL 7.39; the last evaluation, at KL 6.25, is before it" in estimate


@pytest.mark.parametrize("name", ["divergence.csv", "learning.jsonl", "frozen.jsonl", "unstable.jsonl", "snapshot.csv"])
def test_every_phase_is_within_the_log_and_none_overlaps(name: str) -> None:
    phases = diagnosed(LOGS / name).phases
    assert all(phase.first <= phase.last for phase in phases)
    assert all(one.last < two.first for one, two in pairwise(phases))


def test_a_long_healthy_run_is_split_where_its_course_changes() -> None:
    rows = [
        {
            "step": i,
            "objective/scores": min(i, 30) / 10 + 0.01 * (i % 3),
            "objective/kl": min(i, 30) / 6 + 0.01 * (i % 2),
        }
        for i in range(1, 61)
    ]
    first, last = diagnosed_rows(rows).phases
    assert first.last == pytest.approx(30, abs=3)
    assert "score" in first.text
    assert "rising" in first.text
    assert "flat" in last.text


def test_the_last_line_of_a_run_is_its_verdict_and_where_to_read_on() -> None:
    assert closing_line(diagnosed_rows([{"objective/kl": 1.0}]), Path("out")) == "doctor: healthy"
    assert closing_line(diagnosed_rows([{"objective/kl": 90.0}]), Path("out")) == (
        "doctor: 1 finding (KL high); what to do: python -m rlhf_ray.doctor out"
    )
