"""What all workers share: a log of when they computed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", bound="Worker")


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of work."""

    phase: str
    start_s: float  # seconds since the epoch, so that spans of processes on one machine compare
    end_s: float


class Worker:
    """A plain object that lives in an actor, or in the driver's process in the local team."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def spans(self) -> list[Span]:
        """What was done since the last call."""
        spans, self._spans = self._spans, []
        return spans

    def log(self, span: Span) -> None:
        """Remember a stretch of work."""
        self._spans.append(span)


def phase(name: str) -> Callable[[Callable[Concatenate[W, P], R]], Callable[Concatenate[W, P], R]]:
    """Log every run of a worker's method as a span of this phase."""

    def decorate(method: Callable[Concatenate[W, P], R]) -> Callable[Concatenate[W, P], R]:
        @functools.wraps(method)
        def timed(self: W, /, *args: P.args, **kwargs: P.kwargs) -> R:
            start_s = time.time()
            try:
                return method(self, *args, **kwargs)
            finally:
                self.log(Span(name, start_s, time.time()))

        return timed

    return decorate


def busy_s(spans: Iterable[Span]) -> float:
    """Length of the union of spans: seconds in which at least one of them ran."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.start_s):
        total += max(0.0, span.end_s - max(span.start_s, reached))
        reached = max(reached, span.end_s)
    return total
