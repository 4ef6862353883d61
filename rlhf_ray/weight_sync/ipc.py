"""Learner and generators on the same GPU: vLLM's "ipc" engine. Not run here; tests/gpu runs it on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vllm.distributed.weight_transfer import (
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
    WeightTransferTrainerFactory,
)
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

from rlhf_ray.weight_sync.buckets import NamedTensors
from rlhf_ray.weight_sync.device_channel import DeviceChannel, DeviceReceiver


def ipc_channel(named_weights: Callable[[], NamedTensors], receivers: Sequence[DeviceReceiver]) -> DeviceChannel:
    """Share the learner's GPU memory with every generator on its GPU, a chunk at a time.

    The learner's tensors must be on the GPU and in another process than the generator's. Generators need
    weight_transfer="ipc".
    """

    def open_trainer(index: int, client: VLLMWeightSyncClient, source: WeightSource) -> TrainerWeightTransferEngine:
        del index
        init_info = IPCTrainerInitInfo(rank=0, packed=True)
        return WeightTransferTrainerFactory.trainer_init(init_info, client=client, source=source)

    return DeviceChannel(named_weights, receivers, open_trainer=open_trainer)
