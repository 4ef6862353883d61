import importlib.util
import os
from pathlib import Path

import pytest

from rlhf_ray.config.host import Host, host_problems, inspect_host
from rlhf_ray.config.schema import TrainConfig

CPU_ONLY = Host(num_cpus=2, num_gpus=0, has_vllm=True)
TWO_GPUS = Host(num_cpus=2, num_gpus=2, has_vllm=True)


@pytest.fixture
def config():
    return TrainConfig()


def test_the_default_config_needs_vllm_and_no_gpu(config):
    assert host_problems(config, CPU_ONLY) == []


def test_cuda_without_a_device_is_refused(config):
    config.learner.device = "cuda"
    (message,) = host_problems(config, CPU_ONLY)
    assert "learner.device=cuda" in message
    assert "learner.device=cpu" in message
    assert host_problems(config, TWO_GPUS) == []


def test_vllm_that_is_not_installed_is_refused_with_the_way_out(config):
    (message,) = host_problems(config, Host(num_cpus=2, num_gpus=0, has_vllm=False))
    assert "generator.backend=vllm" in message
    assert "generator=hf" in message
    config.generator.backend = "hf"
    assert host_problems(config, Host(num_cpus=2, num_gpus=0, has_vllm=False)) == []


def test_more_tensor_parallel_ranks_than_gpus_are_refused(config):
    config.generator.tensor_parallel_size = 3
    (message,) = host_problems(config, TWO_GPUS)
    assert message == "generator.tensor_parallel_size=3: accepted is at most 2, with 2 GPUs here"


def test_more_reserved_gpus_than_there_are_are_refused(config):
    config.placement.policy.num_gpus = 1.5
    config.placement.generator.num_gpus = 1
    (message,) = host_problems(config, TWO_GPUS)
    assert "reserve 2.5 together" in message


def test_more_reserved_cores_than_there_are_are_refused(config):
    config.placement.policy.num_cpus = 1.0
    (message,) = host_problems(config, CPU_ONLY)
    assert message == "placement.*.num_cpus: the roles reserve 2.25 together; accepted is at most 2 here"
    config.placement.backend = "local"
    assert host_problems(config, CPU_ONLY) == []


def test_every_generator_reserves_for_itself(config):
    config.generator.num_replicas = 3
    config.placement.generator.num_cpus = 0.3
    (message,) = host_problems(config, CPU_ONLY)
    assert message.startswith("placement.*.num_cpus: the roles reserve 2.15 together, with 3 generators;")
    config.placement.data.num_cpus = 0.1
    assert host_problems(config, CPU_ONLY) == []


def test_the_gpus_of_a_cluster_elsewhere_are_not_judged_by_this_machine(config):
    config.learner.device = "cuda"
    config.placement.address = "ray://head:10001"
    assert host_problems(config, CPU_ONLY) == []


def test_this_machine_is_described_as_it_is():
    found = inspect_host()
    assert found.num_cpus == os.cpu_count()
    assert found.has_vllm == (importlib.util.find_spec("vllm") is not None)
    if not Path("/proc/driver/nvidia").exists():
        assert found.num_gpus == 0
