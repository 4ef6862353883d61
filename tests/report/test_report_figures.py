"""Curves as figures."""

import numpy as np
import pytest

from rlhf_ray.doctor.findings import Evidence, Finding, Severity
from rlhf_ray.doctor.runlog import series_of
from rlhf_ray.report.chart_table import BLUE, CHARTS, Chart, Line
from rlhf_ray.report.figures import MAX_POINTS, chart_figure, histogram_figure, overoptimization_figure, thinned
from rlhf_ray.report.views import clock, evenly
from rlhf_ray.tracking.registry import check_names

CHART = Chart(title="KL", unit="nats", lines=(Line(metric="objective/kl", label="KL", color=BLUE),))


def finding(severity: Severity, first_step: float, until: float | None) -> Finding:
    return Finding(
        kind="runaway_kl",
        form="level",
        stage="ppo",
        severity=severity,
        first_step=first_step,
        until=until,
        onsets={severity: first_step},
        phrase="<b>KL</b>",
        summary="",
        evidence=(Evidence(metric="objective/kl", before=1.0, after=9.0, last=9.0, limit=5.0),),
        causes=(),
        changes=(),
        watch_next=(),
        rule="runaway_kl.level",
    )


def drawn(*findings: Finding) -> dict:
    series = {"objective/kl": series_of([1, 2, 3, 4], [1.0, 2.0, 9.0, float("nan")])}
    figure = chart_figure(CHART, series, findings, ceiling=None, step_word="iteration")
    assert figure is not None
    return figure


def test_a_finding_is_a_diamond_on_its_curve_and_a_tint_to_its_end():
    figure = drawn(finding(Severity.WARNING, 2.0, 3.0))
    curve, mark = figure["data"]
    assert (mark["x"], mark["y"], mark["marker"]["symbol"]) == ([2.0], [2.0], "diamond")
    assert [(shape["x0"], shape["x1"]) for shape in figure["layout"]["shapes"]] == [(2.0, 3.0)]
    assert curve["y"] == [1.0, 2.0, 9.0, None]


def test_what_goes_on_is_tinted_to_the_last_step():
    assert drawn(finding(Severity.CRITICAL, 3.0, None))["layout"]["shapes"][0]["x1"] == 4.0


def test_what_is_only_to_be_watched_is_not_tinted():
    assert drawn(finding(Severity.WATCH, 3.0, None))["layout"]["shapes"] == []


def test_names_are_escaped_for_plotly_which_reads_markup():
    assert drawn(finding(Severity.WARNING, 2.0, None))["data"][1]["name"] == "warning: &lt;b&gt;KL&lt;/b&gt;"


def test_the_axis_of_a_short_run_is_marked_at_steps_not_between_them():
    assert drawn()["layout"]["xaxis"]["dtick"] == 1
    series = {"objective/kl": series_of(range(1, 31), np.ones(30))}
    long = chart_figure(CHART, series, (), ceiling=None, step_word="iteration")
    assert long is not None
    assert "dtick" not in long["layout"]["xaxis"]


def test_a_chart_without_a_measured_metric_is_left_out():
    assert chart_figure(CHART, {}, (), ceiling=None, step_word="iteration") is None


def test_long_curves_keep_their_extremes():
    values = np.zeros(1_000_000)
    values[[123_456, 654_321]] = 7.0, -7.0
    points = thinned(series_of(np.arange(1_000_000), values))
    assert points.size <= MAX_POINTS
    assert (points.values.max(), points.values.min()) == (7.0, -7.0)
    assert (np.diff(points.steps) > 0).all()


def test_short_curves_are_whole():
    series = series_of([1, 2], [3.0, 4.0])
    assert thinned(series) is series


def test_shares_of_a_histogram_add_up_in_every_iteration():
    figure = histogram_figure({1: np.array([0.0, 1.0, np.nan, 2.0]), 2: np.array([5.0])})
    assert figure is not None
    assert figure["data"][0]["x"] == [1, 2]
    assert np.sum(figure["data"][0]["z"], axis=0).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


def test_there_is_no_histogram_of_nothing():
    assert histogram_figure({}) is None
    assert histogram_figure({1: np.array([np.nan])}) is None


def test_proxy_against_gold_needs_both():
    kl, score = series_of([0, 5], [0.0, 4.0]), series_of([0, 5], [0.1, 0.2])
    assert overoptimization_figure({"eval/kl": kl, "eval/proxy_score": score}) is None
    figure = overoptimization_figure({"eval/kl": kl, "eval/proxy_score": score, "eval/gold_score": score})
    assert figure is not None
    assert figure["data"][0]["x"] == [0.0, 2.0]


def test_every_metric_of_the_charts_exists():
    charts = [chart for stage in ("sft", "reward_model", "ppo") for chart in CHARTS[stage]]
    check_names({line.metric for chart in charts for line in chart.lines})
    check_names({name for chart in charts if chart.band for name in chart.band[:2]})


def test_columns_are_the_first_the_last_and_evenly_between():
    assert evenly([0, 5, 10], 6) == [0, 5, 10]
    assert evenly(list(range(0, 101, 5)), 3) == [0, 50, 100]


def test_times_are_told_as_on_a_clock():
    assert [clock(value) for value in (7.6, 90.0, 3900.0)] == ["8 s", "1:30 min", "1:05 h"]
