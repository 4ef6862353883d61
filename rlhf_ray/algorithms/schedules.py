"""Learning rates per step, as pure functions of the step."""

from __future__ import annotations

import math
from enum import StrEnum


class ScheduleKind(StrEnum):
    """How the rate falls after the warm-up."""

    LINEAR = "linear"
    COSINE = "cosine"
    CONSTANT = "constant"


def learning_rate(kind: ScheduleKind, *, step: int, num_steps: int, base: float, warmup: int) -> float:
    """The rate of step 1..num_steps; `warmup` steps rise as base * step / warmup, the rest decay.

    LINEAR base * (1 - p), COSINE base * (1 + cos(pi p)) / 2, with p = (step - 1 - warmup) / (num_steps - warmup). The
    first step after the warm-up has the full rate and none has 0. (N+: linear, warmup 0)
    """
    assert 1 <= step <= num_steps, f"step {step} of {num_steps}: steps count from 1"
    if step <= warmup:
        return base * step / warmup
    progress = (step - 1 - warmup) / (num_steps - warmup)
    match kind:
        case ScheduleKind.LINEAR:
            return base * (1.0 - progress)
        case ScheduleKind.COSINE:
            return base * (1.0 + math.cos(math.pi * progress)) / 2
        case ScheduleKind.CONSTANT:
            return base
