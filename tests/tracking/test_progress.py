import io

import pytest
from rich.console import Console

from rlhf_ray.errors import ConfigError
from rlhf_ray.tracking.progress import LiveDisplay, PlainDisplay, duration, figures, open_display


def log_console():
    return Console(file=io.StringIO(), width=120)


def terminal_console():
    return Console(file=io.StringIO(), width=120, force_terminal=True, _environ={"TERM": "xterm"})


def test_a_log_gets_one_plain_line_a_record_with_the_time_left():
    console = log_console()
    times = iter([100.0, 110.0])
    display = open_display("auto", console=console, clock=lambda: next(times))
    display.stage("ppo", total=20, done=0)
    display.advance(
        5,
        {
            "objective/scores": 1.234,
            "objective/kl": 2.5,
            "throughput/tokens_per_second": 1234.5,
            "val/explained_variance": None,
        },
    )
    display.message("weights synced")
    display.close()
    assert console.file.getvalue() == "ppo 5/20  score +1.23  KL 2.50  1,234 tokens/s  0:30 left\nweights synced\n"


def test_a_log_has_no_control_codes():
    console = log_console()
    display = open_display("auto", console=console, clock=lambda: 0.0)
    display.stage("sft", total=2, done=0)
    for step in (1, 2):
        display.advance(step, {"sft/loss": 2.0})
    display.close()
    assert "\x1b" not in console.file.getvalue()
    assert "\r" not in console.file.getvalue()


def test_the_time_left_of_a_resumed_stage_counts_only_its_own_steps():
    stream = io.StringIO()
    times = iter([0.0, 10.0])
    display = PlainDisplay(stream, clock=lambda: next(times))
    display.stage("ppo", total=20, done=10)
    display.advance(15, {})
    assert stream.getvalue() == "ppo 15/20  0:10 left\n"


def test_a_finished_stage_has_no_time_left():
    stream = io.StringIO()
    display = PlainDisplay(stream, clock=lambda: 0.0)
    display.stage("ppo", total=20, done=0)
    display.advance(20, {"objective/kl": 1.0})
    assert stream.getvalue() == "ppo 20/20  KL 1.00\n"


def test_a_terminal_gets_bars_with_the_last_known_figures_and_the_cursor_back():
    console = terminal_console()
    display = open_display("auto", console=console, clock=lambda: 0.0)
    assert isinstance(display, LiveDisplay)
    display.stage("ppo", total=20, done=10)
    display.advance(11, {"eval/gold_score": 0.5, "objective/kl": 1.0})
    display.advance(12, {"objective/kl": 2.0})
    display.message("[not markup] synced")
    display.close()
    shown = console.file.getvalue()
    last = shown[shown.rindex("12/20") :]
    assert last.split("\n")[0].startswith("12/20")
    assert "gold +0.50  KL 2.00" in last
    assert "[not markup] synced" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize(("mode", "kind"), [("on", LiveDisplay), ("off", PlainDisplay), ("auto", PlainDisplay)])
def test_the_mode_decides_where_the_console_does_not(mode, kind):
    display = open_display(mode, console=log_console(), clock=lambda: 0.0)
    assert isinstance(display, kind)
    display.close()


def test_a_dumb_terminal_gets_plain_lines():
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(open_display("auto", console=console, clock=lambda: 0.0), PlainDisplay)


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"tracking\.progress=yes; accepted are auto, on, off"):
        open_display("yes", console=log_console(), clock=lambda: 0.0)


def test_figures_come_in_a_fixed_order_and_undefined_ones_are_left_out():
    measured = {"objective/kl": 0.0, "eval/gold_score": None, "objective/scores": -1.0}
    assert figures(measured, stage="ppo") == ["score -1.00", "KL 0.00"]


def test_figures_of_another_stage_that_ride_along_are_not_shown():
    measured = {"objective/scores": -1.0, "reward_model/val_accuracy": 0.9}
    assert figures(measured, stage="ppo") == ["score -1.00"]
    assert figures(measured, stage="reward_model") == ["held out 90.0%", "score -1.00"]


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (65, "1:05"), (3599.6, "1:00:00"), (7265, "2:01:05")])
def test_durations_read_like_clocks(seconds, text):
    assert duration(seconds) == text
