"""Workers as Ray actors in one placement group."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rlhf_ray.actors.placement import Resources, reserve
from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.shell import Shell
from rlhf_ray.actors.worker import Worker
from rlhf_ray.errors import Preempted, ResourceError, RlhfRayError, WorkerError
from rlhf_ray.types import Ref

T = TypeVar("T")
W = TypeVar("W", bound=Worker)

PING_S = 2.0


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Which cluster, and how long to wait for it."""

    address: str | None  # None: start one on this machine
    object_store_bytes: int
    strategy: str
    wait_s: float
    phase_limit_s: float


class RayRuntime:
    """Owns the placement group, the actors in it and, where it started one, the local cluster."""

    def __init__(self, roles: Mapping[str, Resources], settings: ClusterSettings) -> None:
        self._roles = dict(roles)
        self._settings = settings
        self._place = "start"
        self._actors: dict[str, Any] = {}
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            connect(settings)
        try:
            self._group = reserve(self._roles, strategy=settings.strategy, wait_s=settings.wait_s)
        except BaseException:
            self._disconnect()
            raise

    def start(self, role: str, kind: type[W], *args: object) -> Remote[W]:
        """Create the actor in its bundle."""
        wanted = self._roles[role]
        actor = (
            ray.remote(Shell)
            .options(
                num_cpus=wanted.num_cpus,
                num_gpus=wanted.num_gpus,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=list(self._roles).index(role)
                ),
                runtime_env={"env_vars": worker_environment(wanted.threads)},
            )
            .remote(role, kind, *args)
        )
        self._actors[role] = actor
        return Remote(role, actor)

    def call(self, worker: Remote[Any], method: Callable[..., T], *args: object) -> Ref[T]:
        """Submit the call."""
        (ref,) = self._submit(worker.handle.run, worker, method, args, num_returns=1)
        return ref

    def call_many(
        self, worker: Remote[Any], method: Callable[..., Sequence[Any]], *args: object, num_results: int
    ) -> list[Ref[Any]]:
        """Submit a call with several results."""
        entry = worker.handle.run if num_results > 1 else worker.handle.run_for_one
        return self._submit(entry, worker, method, args, num_returns=num_results)

    def gather(self, refs: Sequence[Ref[Any]]) -> list[Any]:
        """Wait for all; the first failure is raised in the place of all."""
        limit_s = self._settings.phase_limit_s
        try:
            values: list[Any] = ray.get([ref.value for ref in refs], timeout=limit_s)
        except GetTimeoutError as error:
            late = " or ".join(dict.fromkeys(ref.label for ref in unfinished(refs)))
            raise WorkerError(
                f"{self._place}: no answer from {late} within placement.phase_limit_s={limit_s:g}"
            ) from error
        except RayTaskError as error:
            raise self._explain(error.cause) from error
        except RayActorError as error:
            raise self._explain(error) from error
        return values

    def at(self, place: str) -> None:
        """Where the run is."""
        self._place = place

    def close(self) -> None:
        """Kill the actors, free the group and end the cluster that was started here."""
        for actor in self._actors.values():
            ray.kill(actor)
        self._actors.clear()
        remove_placement_group(self._group)
        self._disconnect()

    def _submit(
        self, entry: Any, worker: Remote[Any], method: Callable[..., Any], args: Sequence[object], *, num_returns: int
    ) -> list[Ref[Any]]:
        values = [arg.value if isinstance(arg, Ref) else arg for arg in args]
        label = f"{worker.role}.{method.__name__}"
        result = entry.options(num_returns=num_returns, name=label).remote(method.__name__, *values)
        return [Ref(label, ref) for ref in (result if num_returns > 1 else [result])]

    def _explain(self, error: Exception) -> RlhfRayError:
        """What a call failed with, its own error or that of a call whose result it needed, as an error of ours."""
        if isinstance(error, RlhfRayError):
            return type(error)(f"{self._place}: {error}")
        if isinstance(error, RayActorError):
            who = ", ".join(dead(self._actors)) or "a worker"
            return WorkerError(f"{self._place}: the process of {who} died: {cause_of_death(str(error))}")
        return WorkerError(f"{self._place}: {type(error).__name__}: {error}")

    def _disconnect(self) -> None:
        if self._owns_cluster:
            ray.shutdown()


def cause_of_death(text: str) -> str:
    """What Ray says of the process itself, out of its lines about actor, addresses and guesses."""
    words = " ".join(re.sub(r"\x1b\[\d+m", "", text).split())
    detail = words.rpartition("Worker exit detail: ")[2].partition(" Some common causes include")[0]
    lost = "End of file" in detail  # the connection broke, which is all that Ray saw
    return f"{detail} It told no error: killed from outside, usually for want of memory, or crashed" if lost else detail


def unfinished(refs: Sequence[Ref[Any]]) -> list[Ref[Any]]:
    """Those of the calls that have no result yet."""
    _, late = ray.wait([ref.value for ref in refs], num_returns=len(refs), timeout=0)
    return [ref for ref in refs if ref.value in late]


def dead(actors: Mapping[str, Any]) -> Iterator[str]:
    """The roles whose process has ended. One that is busy does not answer, and counts as alive."""
    pings = {actor.process_id.remote(): role for role, actor in actors.items()}
    answered, _ = ray.wait(list(pings), num_returns=len(pings), timeout=PING_S)
    for ping in answered:
        try:
            ray.get(ping)
        except RayActorError:
            yield pings[ping]


def connect(settings: ClusterSettings) -> None:
    """Join the cluster at the address, or start one on this machine that only holders of its token can reach.

    Ray reads RAY_AUTH_MODE when it is imported, so the entry point sets it.
    """
    if settings.address is None and os.environ.get("RAY_AUTH_MODE") != "token":
        raise ResourceError(
            "a cluster started here listens on all interfaces: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        )
    with own_sigterm_handler():
        if settings.address is None:
            ray.init(
                include_dashboard=False,
                object_store_memory=settings.object_store_bytes,
                log_to_driver=False,
                configure_logging=False,
            )
        else:
            ray.init(address=settings.address, log_to_driver=False, configure_logging=False)


@contextmanager
def own_sigterm_handler() -> Iterator[None]:
    """ray.init installs a SIGTERM handler that exits: the one that was there goes back in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as error:
        raise Preempted from error
    finally:
        signal.signal(signal.SIGTERM, before)


def worker_environment(threads: int) -> dict[str, str]:
    """Variables that must be set before a worker loads torch or vLLM."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads starve the other workers of the machine
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
