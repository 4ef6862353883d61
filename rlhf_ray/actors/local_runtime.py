"""All workers in this process: for debugging, and to prove that Ray changes no number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.shell import told_by
from rlhf_ray.actors.worker import Worker
from rlhf_ray.types import Ref

T = TypeVar("T")
W = TypeVar("W", bound=Worker)


class LocalRuntime:
    """Calls run at once."""

    def __init__(self) -> None:
        self._place = "start"

    def start(self, role: str, kind: type[W], *args: object) -> Remote[W]:
        """Construct the object."""
        with told_by(self._place), told_by(f"start of {role}"):
            return Remote(role, kind(*args))

    def call(self, worker: Remote[Any], method: Callable[..., T], *args: object) -> Ref[T]:
        """Run the method."""
        label = f"{worker.role}.{method.__name__}"
        values = [arg.value if isinstance(arg, Ref) else arg for arg in args]
        with told_by(self._place), told_by(label):
            return Ref(label, getattr(worker.handle, method.__name__)(*values))

    def call_many(
        self, worker: Remote[Any], method: Callable[..., Sequence[Any]], *args: object, num_results: int
    ) -> list[Ref[Any]]:
        """Run the method and spread its result."""
        result = self.call(worker, method, *args)
        assert len(result.value) == num_results
        return [Ref(result.label, item) for item in result.value]

    def gather(self, refs: Sequence[Ref[Any]]) -> list[Any]:
        """Nothing to wait for."""
        return [ref.value for ref in refs]

    def at(self, place: str) -> None:
        """Where the run is."""
        self._place = place

    def close(self) -> None:
        """The objects go with their last reference."""
