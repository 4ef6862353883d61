"""Learner and generators on different GPUs: vLLM's "nccl" engine. Not run here; tests/gpu runs it on two GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vllm.distributed.weight_transfer import (
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
    WeightTransferTrainerFactory,
)
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

from rlhf_ray.weight_sync.buckets import NamedTensors
from rlhf_ray.weight_sync.device_channel import DeviceChannel, DeviceReceiver


def nccl_channel(
    named_weights: Callable[[], NamedTensors],
    receivers: Sequence[DeviceReceiver],
    *,
    address: str,
    ports: Sequence[int],
    ranks_per_receiver: int,
) -> DeviceChannel:
    """Connect the learner, rank 0 of each group, with every generator.

    `address` is the learner's, with one free port per generator; `ranks_per_receiver` is a generator's tensor-parallel
    size. Generators need weight_transfer="nccl". Blocks until all have joined.
    """
    assert len(ports) == len(receivers), "one port per generator"

    def open_trainer(index: int, client: VLLMWeightSyncClient, source: WeightSource) -> TrainerWeightTransferEngine:
        init_info = NCCLTrainerInitInfo(
            rank=0, master_address=address, master_port=ports[index], world_size=1 + ranks_per_receiver
        )
        return WeightTransferTrainerFactory.trainer_init(init_info, client=client, source=source)

    return DeviceChannel(named_weights, receivers, open_trainer=open_trainer)
