"""How the team reaches its workers: the same calls for Ray actors and for plain objects in this process.

A worker is called through the method of its plain class, `runtime.call(remote, DataWorker.collect, ...)`: the name is
checked by the type checker and found by a search, and the role and method are known when something fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rlhf_ray.actors.worker import Worker
from rlhf_ray.types import Ref

T = TypeVar("T")
W_co = TypeVar("W_co", bound=Worker, covariant=True)


@dataclass(frozen=True)
class Remote(Generic[W_co]):
    """A worker somewhere."""

    role: str
    handle: Any  # a Ray actor handle, or the object itself


class Runtime(Protocol):
    """Starts workers and calls them. Refs among the arguments arrive as their values."""

    def start(self, role: str, kind: type[W_co], *args: object) -> Remote[W_co]:
        """A new worker; does not wait for it. Its role names its resources."""

    def call(self, worker: Remote[Any], method: Callable[..., T], *args: object) -> Ref[T]:
        """Begin a call. Calls to one worker run in the order they were begun."""

    def call_many(
        self, worker: Remote[Any], method: Callable[..., Sequence[Any]], *args: object, num_results: int
    ) -> list[Ref[Any]]:
        """Begin a call whose result is a sequence; each item becomes a ref of its own."""

    def gather(self, refs: Sequence[Ref[Any]]) -> list[Any]:
        """Wait for all. WorkerError names the worker, the method and where the run was."""

    def at(self, place: str) -> None:
        """Where the run is (stage and iteration), for error messages."""

    def close(self) -> None:
        """End all workers and give back what they held."""
