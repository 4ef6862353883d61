"""The GPU transports' bookkeeping, on a CPU: a trainer engine that hands tensors over stands for vLLM's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from rlhf_ray.errors import SyncError
from rlhf_ray.types import SyncReceipt, WeightManifest
from rlhf_ray.weight_sync.buckets import TensorMeta
from rlhf_ray.weight_sync.device_channel import DeviceChannel
from rlhf_ray.weight_sync.receiver import SyncReceiver

WEIGHTS = {"a": torch.ones(3), "b": torch.zeros(2, 2)}


@dataclass
class Memory:
    """A receiver that keeps what it is given."""

    sync: SyncReceiver = field(
        default_factory=lambda: SyncReceiver({name: TensorMeta.of(tensor) for name, tensor in WEIGHTS.items()})
    )
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    init_info: dict[str, Any] = field(default_factory=dict)

    def connect(self, init_info):
        self.init_info = init_info

    def begin_sync(self, manifest: WeightManifest) -> None:
        self.sync.begin(manifest)

    def receive_on_device(self, update_info) -> None:
        self.sync.accept_unhashed(update_info["names"])
        self.tensors.update(zip(update_info["names"], update_info["tensors"], strict=True))

    def finish_sync(self) -> SyncReceipt:
        return self.sync.finish()


@dataclass
class DirectTrainer:
    """vLLM's trainer protocol: start, update in chunks, finish without a version."""

    client: Any
    source: Any
    chunk: int
    drop_last: bool = False
    finish: bool = True

    def send_weights(self) -> None:
        assert [(meta.name, meta.shape) for meta in self.source.metadata()] == [("a", (3,)), ("b", (2, 2))]
        pairs = list(self.source)[: -1 if self.drop_last else None]
        self.client.start_weight_update()
        for start in range(0, len(pairs), self.chunk):
            names, tensors = zip(*pairs[start : start + self.chunk], strict=True)
            self.client.update_weights({"names": list(names), "tensors": tensors})
        if self.finish:
            self.client.finish_weight_update()

    def shutdown(self) -> None:
        self.client = None


def channel(receivers, **trainer) -> DeviceChannel:
    def open_trainer(index, client, source):
        client.init_weight_transfer_engine({"rank": index})
        return DirectTrainer(client, source, **trainer)

    return DeviceChannel(lambda: iter(WEIGHTS.items()), receivers, open_trainer=open_trainer)


@pytest.mark.parametrize("chunk", [1, 2])
def test_every_generator_confirms_the_version_that_vllm_does_not_send(chunk):
    receivers = [Memory(), Memory()]
    receipts = channel(receivers, chunk=chunk).send(version=9)
    assert [receipt.version for receipt in receipts] == [9, 9]
    assert receipts[0].digest == receipts[1].digest
    assert [receiver.init_info for receiver in receivers] == [{"rank": 0}, {"rank": 1}]
    for receiver in receivers:
        receiver.sync.require(9)
        assert torch.equal(receiver.tensors["b"], WEIGHTS["b"])


def test_a_tensor_left_out_is_found_though_vllm_would_not():
    receiver = Memory()
    with pytest.raises(SyncError, match="1 of 2 tensors arrived; missing b"):
        channel([receiver], chunk=1, drop_last=True).send(version=9)
    channel([receiver], chunk=1).send(version=9)
    receiver.sync.require(9)


def test_a_trainer_that_never_finishes_is_not_taken_for_a_confirmation():
    with pytest.raises(SyncError, match="has not confirmed the weights"):
        channel([Memory()], chunk=1, finish=False).send(version=9)
