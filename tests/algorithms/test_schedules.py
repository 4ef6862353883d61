import pytest

from rlhf_ray.algorithms.schedules import ScheduleKind, learning_rate


def rates(kind: ScheduleKind, *, num_steps: int, warmup: int) -> list[float]:
    return [
        learning_rate(kind, step=step, num_steps=num_steps, base=8.0, warmup=warmup) for step in range(1, num_steps + 1)
    ]


def test_schedules_by_hand() -> None:
    assert rates(ScheduleKind.LINEAR, num_steps=4, warmup=0) == [8.0, 6.0, 4.0, 2.0]
    assert rates(ScheduleKind.LINEAR, num_steps=6, warmup=2) == [4.0, 8.0, 8.0, 6.0, 4.0, 2.0]
    assert rates(ScheduleKind.COSINE, num_steps=2, warmup=0) == pytest.approx([8.0, 4.0])
    assert rates(ScheduleKind.COSINE, num_steps=3, warmup=0) == pytest.approx([8.0, 6.0, 2.0])
    assert rates(ScheduleKind.CONSTANT, num_steps=3, warmup=1) == [8.0, 8.0, 8.0]


@pytest.mark.parametrize("kind", list(ScheduleKind))
@pytest.mark.parametrize("warmup", [0, 1, 5, 9])
def test_rate_is_never_zero_and_never_above_its_base(kind: ScheduleKind, warmup: int) -> None:
    assert all(0.0 < rate <= 8.0 for rate in rates(kind, num_steps=5, warmup=warmup))


@pytest.mark.parametrize("step", [0, 5])
def test_steps_count_from_one_to_the_last(step: int) -> None:
    with pytest.raises(AssertionError, match="steps count from 1"):
        learning_rate(ScheduleKind.LINEAR, step=step, num_steps=4, base=8.0, warmup=0)
