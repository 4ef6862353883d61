"""Persistence, shifts, noise, trends."""

import numpy as np
import pytest
from doctor_cases import ramp

from rlhf_ray.doctor.robust import needed, noise, persistent, recent, shift, start_level, trend
from rlhf_ray.doctor.runlog import series_of


def flags(text: str) -> np.ndarray:
    return np.array([mark == "x" for mark in text])


@pytest.mark.parametrize(
    ("marks", "least", "first", "end"),
    [
        ("...xxx...", 3, 3, 6),
        ("...x.xx...", 3, 3, 7),  # 3 of 5
        ("x..x..x..", 3, None, None),
        ("....xx", 2, 4, None),
        ("x.x.x.", 2, None, None),  # 2 of 2
        (".......x", 1, 7, None),
        ("x", 1, 0, None),
    ],
)
def test_a_stretch_begins_at_its_first_bad_point(marks: str, least: int, first: int | None, end: int | None) -> None:
    run = persistent(flags(marks), least)
    assert (None if run is None else (run.first, run.end)) == (None if first is None else (first, end))


def test_few_points_of_many_steps_each_need_two_and_one_alone_is_never_enough() -> None:
    assert needed(np.array([1000.0, 2000.0, 3000.0]), 3) == 2
    assert needed(np.array([1.0, 2.0, 3.0]), 3) == 3  # the first iterations of a run
    assert needed(np.array([1000.0]), 3) == 3


def test_long_logs_need_more() -> None:
    assert [needed(np.arange(n, dtype=float), 3) for n in (100, 1000, 10000)] == [3, 4, 5]
    assert needed(np.arange(10000.0), 1) == 1


def test_the_level_before_a_point_does_not_contain_it() -> None:
    level, spread = recent(np.array([1.0, 2.0, 3.0, 100.0, 4.0]), 3)
    assert np.isnan(level[:3]).all()
    assert level[3:].tolist() == [2.0, 3.0]
    assert spread[3] == pytest.approx(1.4826)


def test_a_shift_must_last_and_stand_out_of_the_noise() -> None:
    numbers = {"window": 10.0, "spread": 4.0, "persistence": 2.0}
    times, size = shift(series_of(range(1, 9), [1, 1, 1, 1, 3, 3, 1, 9]), numbers)
    assert times.tolist() == [0, 0, 0, 0, 3, 0, 0, 0]
    assert size[4] == 1
    noisy, _ = shift(series_of(range(1, 9), [1, 5, 1, 5, 6, 6, 1, 5]), numbers)
    assert noisy.max() == 0


def test_the_start_is_never_more_than_half_of_the_log() -> None:
    assert start_level(series_of([1, 2, 3, 4], [1.0, 3.0, 50.0, 60.0]), 5) == 2.0


def test_noise_is_about_the_trend() -> None:
    assert noise(np.array(ramp(0, 100, 50))) == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(1)
    assert noise(np.array(ramp(0, 100, 2000)) + rng.normal(0, 2.0, 2000)) == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (ramp(0, 5, 30), "rising"),
        (ramp(5, 0, 30), "falling"),
        ([1.0, 1.1, 0.9] * 10, "flat"),
        (ramp(0, 5, 15) + [5.0, 5.1] * 8, "flattening"),
        ([0.65, 0.70, 0.72, 0.68, 0.62], "falling"),
        ([0.65, 0.70, 0.72], "rising"),
        ([1.0], "flat"),
        ([2.0, 2.0], "flat"),
    ],
)
def test_trends_in_words(values: list[float], word: str) -> None:
    assert trend(series_of(range(len(values)), values)) == word
