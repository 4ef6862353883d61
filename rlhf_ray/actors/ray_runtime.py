"""Workers as Ray actors in one placement group."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rlhf_ray.actors.runtime import Remote
from rlhf_ray.actors.worker import Worker
from rlhf_ray.errors import ResourceError, RlhfRayError, WorkerError
from rlhf_ray.types import Ref

log = logging.getLogger(__name__)
T = TypeVar("T")
W = TypeVar("W", bound=Worker)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one worker reserves and how many threads it computes with."""

    num_cpus: float
    num_gpus: float
    threads: int


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
        self._actors: list[Any] = []
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            connect(settings)
        try:
            self._group = reserve(self._roles, settings)
        except ResourceError:
            self._disconnect()
            raise

    def start(self, role: str, kind: type[W], *args: object) -> Remote[W]:
        """Create the actor in its bundle."""
        wanted = self._roles[role]
        actor = (
            ray.remote(kind)
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
            .remote(*args)
        )
        self._actors.append(actor)
        return Remote(role, actor)

    def call(self, worker: Remote[Any], method: Callable[..., T], *args: object) -> Ref[T]:
        """Submit the call."""
        (ref,) = self._submit(worker, method, args, num_returns=1)
        return ref

    def call_many(
        self, worker: Remote[Any], method: Callable[..., Sequence[Any]], *args: object, num_results: int
    ) -> list[Ref[Any]]:
        """Submit a call with several results."""
        refs = self._submit(worker, method, args, num_returns=num_results)
        # asked for one result, Ray hands back the whole sequence
        return refs if num_results > 1 else [self.call(worker, Worker.only, refs[0])]

    def gather(self, refs: Sequence[Ref[Any]]) -> list[Any]:
        """Wait for all; the first failure is raised in the place of all."""
        try:
            values: list[Any] = ray.get([ref.value for ref in refs], timeout=self._settings.phase_limit_s)
        except GetTimeoutError as error:
            raise WorkerError(
                f"{self._place}: no answer within placement.phase_limit_s={self._settings.phase_limit_s:g} from one of "
                + ", ".join(dict.fromkeys(ref.label for ref in refs))
            ) from error
        except RayTaskError as error:
            raise self._explain(error, refs) from error
        except RayActorError as error:
            raise WorkerError(f"{self._place}: {self._culprit(refs)} died: {error}") from error
        return values

    def at(self, place: str) -> None:
        """Where the run is."""
        self._place = place

    def close(self) -> None:
        """Kill the actors, free the group and end the cluster that was started here."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors.clear()
        remove_placement_group(self._group)
        self._disconnect()

    def _submit(
        self, worker: Remote[Any], method: Callable[..., Any], args: Sequence[object], *, num_returns: int
    ) -> list[Ref[Any]]:
        values = [arg.value if isinstance(arg, Ref) else arg for arg in args]
        bound = getattr(worker.handle, method.__name__)
        result = bound.options(num_returns=num_returns).remote(*values)
        label = f"{worker.role}.{method.__name__}"
        return [Ref(label, ref) for ref in (result if num_returns > 1 else [result])]

    def _explain(self, error: RayTaskError, refs: Sequence[Ref[Any]]) -> RlhfRayError:
        cause = error.cause
        label = self._culprit(refs)
        if isinstance(cause, RlhfRayError):
            return type(cause)(f"{self._place}: {label}: {cause}")
        return WorkerError(f"{self._place}: {label} failed: {type(cause).__name__}: {cause}")

    def _culprit(self, refs: Sequence[Ref[Any]]) -> str:
        """The first of the calls that has failed by now."""
        done, _ = ray.wait([ref.value for ref in refs], num_returns=len(refs), timeout=0)
        for ref in refs:
            if ref.value in done:
                try:
                    ray.get(ref.value, timeout=0)
                except (RayTaskError, RayActorError):
                    return ref.label
                except GetTimeoutError:
                    continue
        return " or ".join(dict.fromkeys(ref.label for ref in refs))

    def _disconnect(self) -> None:
        if self._owns_cluster:
            ray.shutdown()


def connect(settings: ClusterSettings) -> None:
    """Join the cluster at the address, or start one on this machine that only holders of its token can reach.

    Ray reads RAY_AUTH_MODE when it is imported, so the entry point sets it.
    """
    if settings.address is None:
        if os.environ.get("RAY_AUTH_MODE") != "token":
            raise ResourceError(
                "a cluster started here listens on all interfaces: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
            )
        ray.init(
            include_dashboard=False,
            object_store_memory=settings.object_store_bytes,
            log_to_driver=False,
            configure_logging=False,
        )
    else:
        ray.init(address=settings.address, log_to_driver=False, configure_logging=False)


def worker_environment(threads: int) -> dict[str, str]:
    """Variables that must be set before a worker loads torch or vLLM."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads starve the other workers of the machine
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }


def reserve(roles: Mapping[str, Resources], settings: ClusterSettings) -> PlacementGroup:
    """A placement group with one bundle per role, in order.

    ResourceError at once when the cluster could never give it, or after `wait_s` when it is busy; nothing stays held.
    """
    refuse_infeasible(roles)
    bundles = [{"CPU": role.num_cpus} | ({"GPU": role.num_gpus} if role.num_gpus else {}) for role in roles.values()]
    group = placement_group(bundles, strategy=settings.strategy)
    deadline = time.monotonic() + settings.wait_s
    while not group.wait(min(5.0, max(0.1, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            remove_placement_group(group)
            raise ResourceError(f"no resources within placement.wait_s={settings.wait_s:g}\n{resource_table(roles)}")
        log.warning("waiting for resources: %s", resource_table(roles))
    return group


def refuse_infeasible(roles: Mapping[str, Resources]) -> None:
    """ResourceError if the whole cluster, even when idle, has less than what is asked for."""
    total = ray.cluster_resources()
    wanted = {
        "CPU": sum(role.num_cpus for role in roles.values()),
        "GPU": sum(role.num_gpus for role in roles.values()),
    }
    short = [
        f"{kind}: wanted {amount:g}, the cluster has {total.get(kind, 0):g}"
        for kind, amount in wanted.items()
        if amount > total.get(kind, 0) + 1e-6
    ]
    if short:
        raise ResourceError(
            "; ".join(short) + ". Lower placement.<role>.num_cpus / num_gpus (fractions are fine) or join a larger "
            f"cluster with placement.address.\n{resource_table(roles)}"
        )


def resource_table(roles: Mapping[str, Resources]) -> str:
    """Wanted against available, a line per role."""
    free = ray.available_resources()
    lines = [f"  {name:12} wants {role.num_cpus:g} CPU, {role.num_gpus:g} GPU" for name, role in roles.items()]
    return "\n".join([*lines, f"  free now: {free.get('CPU', 0):g} CPU, {free.get('GPU', 0):g} GPU"])
