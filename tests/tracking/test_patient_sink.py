"""Trackers that hang, break or are away."""

import threading
import time

import pytest

from rlhf_ray.tracking.patient_sink import PatientSink
from rlhf_ray.tracking.sink import Alert, End, Tracked
from rlhf_ray.types import Histogram

FINISHED = End(status="finished", error=None)


class Tracker:
    """Writes down what it is told; can be made to hang, or to break."""

    def __init__(self, *, hangs_at=None, breaks_at=None):
        self.told = []
        self.released = threading.Event()
        self._hangs_at, self._breaks_at = hangs_at, breaks_at

    def metrics(self, step, values):
        if step == self._hangs_at:
            self.released.wait()
        if step == self._breaks_at:
            raise ConnectionError("gone")
        self.told.append((step, values))

    def show(self, step, item, *, name):
        self.told.append((step, name, item))

    def alert(self, alert):
        self.told.append(alert)

    def made(self, made):
        self.told.append(made)

    def close(self, end):
        self.told.append(end)

    def tracked(self):
        return Tracked(backend="test", run_id="7")


@pytest.fixture
def messages():
    return []


def patient(tracker, messages, *, patience_s=0.2, errors=()):
    return PatientSink(
        lambda: tracker, errors=errors, patience_s=patience_s, tell=messages.append, clock=time.monotonic
    )


def test_everything_arrives_in_order_before_close_returns(messages):
    tracker = Tracker()
    sink = patient(tracker, messages, patience_s=10)
    alert, histogram = Alert(title="a", text="b", level="info"), Histogram((1,), (0.0, 1.0))
    for step in range(100):
        sink.metrics(step, {"lr": 0.1})
    sink.show(100, histogram, name="h")
    sink.alert(alert)
    sink.close(FINISHED)
    assert tracker.told == [*((step, {"lr": 0.1}) for step in range(100)), (100, "h", histogram), alert, FINISHED]
    assert sink.tracked() == Tracked(backend="test", run_id="7")
    assert messages == []


def test_a_hanging_tracker_costs_nothing_and_is_left_out_with_one_message(messages):
    tracker = Tracker(hangs_at=3)
    sink = patient(tracker, messages)
    longest = 0.0
    for step in range(30):
        began = time.monotonic()
        sink.metrics(step, {})
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.02)
    sink.close(FINISHED)
    assert longest < 0.1
    assert messages == ["tracker left out: it has not answered for 0.2 s; training goes on, local records are complete"]
    tracker.released.set()
    assert [step for step, _ in tracker.told[:3]] == [0, 1, 2]


def test_the_end_waits_no_longer_than_the_patience(messages):
    tracker = Tracker(hangs_at=0)
    sink = patient(tracker, messages)
    sink.metrics(0, {})
    began = time.monotonic()
    sink.close(FINISHED)
    assert time.monotonic() - began < 2
    assert len(messages) == 1
    assert messages[0].startswith("tracker left out: ")
    tracker.released.set()


def test_a_tracker_that_breaks_is_left_out_with_its_reason(messages):
    tracker = Tracker(breaks_at=1)
    sink = patient(tracker, messages, patience_s=10)
    for step in range(3):
        sink.metrics(step, {})
    sink.close(FINISHED)
    assert tracker.told == [(0, {})]
    assert messages == ["tracker left out: ConnectionError: gone; training goes on, local records are complete"]


def test_a_tracker_that_cannot_be_opened_is_left_out(messages):
    class ServerSaysNo(Exception):
        pass

    def refuse():
        raise ServerSaysNo("no such project")

    sink = PatientSink(refuse, errors=(ServerSaysNo,), patience_s=10, tell=messages.append, clock=time.monotonic)
    sink.close(FINISHED)
    assert messages == ["tracker left out: ServerSaysNo: no such project; training goes on, local records are complete"]
    assert sink.tracked() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_no_tracker_was_known_to_raise_leaves_it_out_too(messages):
    class Unheard(Exception):
        pass

    def fail():
        raise Unheard

    sink = PatientSink(fail, errors=(), patience_s=10, tell=messages.append, clock=time.monotonic)
    sink.close(FINISHED)
    sink.metrics(1, {})
    assert messages == ["tracker left out: its thread has ended; training goes on, local records are complete"]
