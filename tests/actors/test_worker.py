"""Spans of work: who computed when, and how long at least one of them did."""

import time

import pytest
from probe_worker import ProbeWorker
from small_run import Bench

from rlhf_ray.actors.team import MODEL_PHASES, pick
from rlhf_ray.actors.worker import Span, Worker, busy_s, phase


def test_overlapping_spans_count_once():
    spans = [Span("a", 0.0, 2.0), Span("b", 1.0, 3.0), Span("a", 1.5, 1.6), Span("b", 10.0, 11.5)]
    assert busy_s(spans) == pytest.approx(3.0 + 1.5)
    assert busy_s(reversed(spans)) == pytest.approx(4.5)
    assert busy_s(pick(spans, "a")) == pytest.approx(2.0)
    assert busy_s([]) == 0.0


def test_work_that_fails_is_logged_too():
    class Failing(Worker):
        @phase("update")
        def fail(self) -> None:
            time.sleep(0.02)
            raise ValueError

    worker = Failing()
    with pytest.raises(ValueError):  # noqa: PT011  any error does
        worker.fail()
    (span,) = worker.spans()
    assert span.phase == "update"
    assert span.end_s - span.start_s >= 0.02


def test_a_decorated_method_keeps_its_name_for_the_runtime():
    assert ProbeWorker.add.__name__ == "add"


def test_orchestration_is_the_time_in_which_no_model_computed(bench: Bench, tmp_path):
    bench.open_models(tmp_path / "models")
    team = bench.opened.team
    team.start_clock()
    time.sleep(0.3)
    team.sync(version=1)
    timings = {name: stat.value for name, stat in team.timings().items()}
    models_s = sum(timings[f"time/{name}"] for name in MODEL_PHASES)
    assert timings["time/iteration"] > 0.3
    assert timings["time/generate"] > 0, "the probe"
    assert timings["time/orchestration"] >= 0.3
    assert timings["time/orchestration"] == pytest.approx(timings["time/iteration"] - models_s, abs=models_s)
    team.start_clock()
    assert team.timings()["time/generate"].value == 0, "told once"
