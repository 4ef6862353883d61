"""A place in the cluster for every worker, or an error that says what is lacking."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from rlhf_ray.errors import ResourceError

log = logging.getLogger(__name__)

TELL_EVERY_S = 5.0
ROUNDING = 1e-6  # of sums of fractions
Amounts = Mapping[str, float]  # CPU, GPU


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one worker reserves and how many threads it computes with."""

    num_cpus: float
    num_gpus: float
    threads: int

    def amounts(self) -> dict[str, float]:
        """What it reserves, as Ray counts it."""
        return {"CPU": self.num_cpus, "GPU": self.num_gpus}


def reserve(roles: Mapping[str, Resources], *, strategy: str, wait_s: float) -> PlacementGroup:
    """A placement group with one bundle per role, in order.

    ResourceError at once when the cluster could never give it, or after `wait_s` when it is busy; nothing stays held.
    """
    lacking = shortage(roles, nodes=[node["Resources"] for node in ray.nodes() if node["Alive"]], strategy=strategy)
    if lacking:
        raise ResourceError(
            f"{lacking}. Lower placement.<role>.num_cpus / num_gpus (fractions are fine) or join a larger cluster with "
            f"placement.address.\n{resource_table(roles)}"
        )
    bundles = [{kind: amount for kind, amount in role.amounts().items() if amount} for role in roles.values()]
    group = placement_group([bundle or {"CPU": 0.001} for bundle in bundles], strategy=strategy)
    try:
        wait(group, roles, wait_s=wait_s)
    except BaseException:
        remove_placement_group(group)
        raise
    return group


def wait(group: PlacementGroup, roles: Mapping[str, Resources], *, wait_s: float) -> None:
    """ResourceError after `wait_s`; a line every few seconds until then."""
    deadline = time.monotonic() + wait_s
    while not group.wait(max(0.1, min(TELL_EVERY_S, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            raise ResourceError(f"no resources within placement.wait_s={wait_s:g}\n{resource_table(roles)}")
        log.warning("waiting for resources:\n%s", resource_table(roles))


def shortage(roles: Mapping[str, Resources], *, nodes: Sequence[Amounts], strategy: str) -> str:
    """Why even an idle cluster of these nodes could not hold the roles; empty where nothing stands against it.

    Necessary conditions only: sums, the largest node, and the number of nodes for STRICT_SPREAD.
    """
    lacking = []
    for kind in ("CPU", "GPU"):
        there = [node.get(kind, 0.0) for node in nodes]
        largest, total = max(there, default=0.0), sum(there)
        wanted = sum(role.amounts()[kind] for role in roles.values())
        if wanted > total + ROUNDING:
            lacking.append(f"{kind}: wanted {wanted:g}, the cluster has {total:g}")
        elif strategy == "STRICT_PACK" and wanted > largest + ROUNDING:
            lacking.append(f"{kind}: wanted {wanted:g} on one node, the largest has {largest:g}")
        else:
            lacking += [
                f"{kind}: {name} wants {role.amounts()[kind]:g}, the largest node has {largest:g}"
                for name, role in roles.items()
                if role.amounts()[kind] > largest + ROUNDING
            ]
    if strategy == "STRICT_SPREAD" and len(roles) > len(nodes):
        lacking.append(
            f"placement.strategy=STRICT_SPREAD puts {len(roles)} workers on as many nodes; {len(nodes)} live"
        )
    return "; ".join(lacking)


def resource_table(roles: Mapping[str, Resources]) -> str:
    """Wanted against available, a line per role."""
    free = ray.available_resources()
    lines = [f"  {name:12} wants {role.num_cpus:g} CPU, {role.num_gpus:g} GPU" for name, role in roles.items()]
    return "\n".join([*lines, f"  free now: {free.get('CPU', 0):g} CPU, {free.get('GPU', 0):g} GPU"])
