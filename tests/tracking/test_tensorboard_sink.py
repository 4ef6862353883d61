"""Event files, read back with TensorBoard's own reader."""

import json

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlhf_ray.tracking.sink import Alert, End, Sheet, StageRun
from rlhf_ray.tracking.tensorboard_sink import TensorboardSink
from rlhf_ray.types import Histogram


def run_of(folder):
    return StageRun(
        stage="ppo", pipeline="run-1", name="run-1/ppo", folder=folder, config={"seed": 3}, used=(), tags=()
    )


def read(folder):
    events = EventAccumulator(str(folder / "tensorboard" / "ppo"))
    events.Reload()
    return events


def text_of(events, tag):
    return events.Tensors(f"{tag}/text_summary")[-1].tensor_proto.string_val[0].decode()


def test_numbers_have_the_names_and_steps_of_the_records(tmp_path):
    sink = TensorboardSink(run_of(tmp_path), purge_from=None)
    sink.metrics(1, {"objective/kl": 0.5, "objective/scores/nonfinite": "nan"})
    sink.metrics(2, {"objective/kl": 0.75})
    sink.show(2, Histogram((1, 3), (0.0, 1.0, 2.0)), name="objective/scores_histogram")
    sink.show(2, Sheet(name="samples", columns=("prompt", "kl"), rows=(("a|b\nc", 0.5), ("d", None))), name="samples")
    sink.alert(Alert(title="KL", text="runs away", level="warning"))
    sink.close(End(status="failed", error="it broke"))
    events = read(tmp_path)
    assert [(event.step, event.value) for event in events.Scalars("objective/kl")] == [(1, 0.5), (2, 0.75)]
    assert events.Tags()["scalars"] == ["objective/kl"]
    (distribution,) = events.Histograms("objective/scores_histogram")
    assert (distribution.step, distribution.histogram_value.num) == (2, 4)
    assert text_of(events, "samples").splitlines() == [
        "| prompt | kl |",
        "| --- | --- |",
        "| a\\|b c | 0.5 |",
        "| d |  |",
    ]
    assert text_of(events, "objective/scores/nonfinite").strip() == "nan"
    assert text_of(events, "alert/warning").strip() == "KL: runs away"
    assert text_of(events, "status").strip() == "failed: it broke"
    assert json.loads(text_of(events, "config")) == {"seed": 3, "used": []}


def test_steps_that_are_done_again_are_not_drawn_twice(tmp_path):
    first = TensorboardSink(run_of(tmp_path), purge_from=None)
    for step in range(1, 5):
        first.metrics(step, {"lr": float(step)})
    first.close(End(status="preempted", error=None))
    second = TensorboardSink(run_of(tmp_path), purge_from=3)
    for step in (3, 4, 5):
        second.metrics(step, {"lr": step + 0.5})
    second.close(End(status="finished", error=None))
    assert [(event.step, event.value) for event in read(tmp_path).Scalars("lr")] == [
        (1, 1.0),
        (2, 2.0),
        (3, 3.5),
        (4, 4.5),
        (5, 5.5),
    ]


def test_steps_that_a_rollback_took_back_are_not_drawn(tmp_path):
    sink = TensorboardSink(run_of(tmp_path), purge_from=None)
    for step, rate in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 2.5), (3, 3.5)):
        sink.metrics(step, {"lr": rate})
    sink.close(End(status="finished", error=None))
    assert [(event.step, event.value) for event in read(tmp_path).Scalars("lr")] == [(1, 1.0), (2, 2.5), (3, 3.5)]
