from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch

from rlhf_ray.errors import StaleGeneratorError, SyncError
from rlhf_ray.types import WeightManifest
from rlhf_ray.weight_sync.buckets import TensorMeta, WeightSender
from rlhf_ray.weight_sync.receiver import SyncReceiver, SyncState

WEIGHTS = {"a": torch.arange(16.0), "b": torch.ones(2, 8), "c": torch.full((4,), 3.0)}
EXPECTED = {name: TensorMeta.of(tensor) for name, tensor in WEIGHTS.items()}


@pytest.fixture
def sender() -> WeightSender:
    """Three buckets: a, b, c."""
    sender = WeightSender(lambda: iter(WEIGHTS.items()), bucket_bytes=64)
    sender.manifest(7)
    return sender


@pytest.fixture
def receiver() -> SyncReceiver:
    return SyncReceiver(EXPECTED)


def send(receiver: SyncReceiver, sender: WeightSender, *, version: int) -> dict[str, torch.Tensor]:
    receiver.begin(sender.manifest(version))
    return dict(pair for index in range(3) for pair in receiver.accept(sender.bucket(index)))


def test_a_complete_transfer_hands_over_every_tensor_and_allows_its_version_only(receiver, sender):
    assert receiver.state is SyncState.IDLE
    received = send(receiver, sender, version=7)
    assert receiver.state is SyncState.RECEIVING
    receipt = receiver.finish()
    assert receiver.state is SyncState.READY
    assert all(torch.equal(received[name], WEIGHTS[name]) for name in WEIGHTS)
    digests = [hashlib.sha256(WEIGHTS[name].numpy().tobytes()).hexdigest() for name in "abc"]
    assert receipt.version == 7
    assert receipt.digest == hashlib.sha256("\n".join(digests).encode()).hexdigest()
    receiver.require(7)
    with pytest.raises(StaleGeneratorError, match="version 8 was asked for, version 7 is loaded"):
        receiver.require(8)


def test_nothing_is_usable_before_the_first_transfer_or_during_one(receiver, sender):
    with pytest.raises(StaleGeneratorError, match="state: idle"):
        receiver.require(7)
    send(receiver, sender, version=7)
    with pytest.raises(StaleGeneratorError, match="state: receiving"):
        receiver.require(7)


def test_all_faults_of_a_manifest_are_named_at_once(receiver, sender):
    a, b, _ = sender.manifest(1).tensors
    wrong = replace(
        sender.manifest(1),
        tensors=(replace(a, dtype="bfloat16"), b, b, replace(b, name="extra")),
    )
    with pytest.raises(SyncError) as caught:
        receiver.begin(wrong)
    assert str(caught.value) == (
        "the manifest of version 1 is not this model's: missing: c; unknown to the model: extra; sent twice: b; "
        "unlike the model: a is bfloat16[16], the model has float32[16]"
    )
    assert receiver.state is SyncState.BROKEN


def test_a_long_list_of_names_is_cut():
    receiver = SyncReceiver({f"t{i}": TensorMeta((1,), "float32") for i in range(9)})
    with pytest.raises(SyncError, match="missing: t0, t1, t2, t3, t4 and 4 more"):
        receiver.begin(WeightManifest(version=0, tensors=(), bucket_bytes=()))


@pytest.mark.parametrize("change", [{"offset": 8}, {"offset": -64}, {"bucket": 3}, {"bucket": -1}, {"num_bytes": 60}])
def test_a_tensor_that_does_not_lie_in_its_bucket_is_refused(receiver, sender, change):
    first, *others = sender.manifest(1).tensors
    with pytest.raises(SyncError, match="do not fit"):
        receiver.begin(replace(sender.manifest(1), tensors=(replace(first, **change), *others)))


def test_a_flipped_bit_is_found_by_hashing_what_arrived(receiver, sender):
    receiver.begin(sender.manifest(7))
    bucket = sender.bucket(0)
    bucket.data[5] ^= 1
    with pytest.raises(SyncError, match="bucket 0 was damaged on the way"):
        receiver.accept(bucket)
    assert receiver.state is SyncState.BROKEN


def test_after_any_error_nothing_is_accepted_until_a_new_transfer_begins(receiver, sender):
    receiver.begin(sender.manifest(7))
    with pytest.raises(SyncError, match="bucket 1 came too early; bucket 0 is next"):
        receiver.accept(sender.bucket(1))
    with pytest.raises(SyncError, match="no sync is under way"):
        receiver.accept(sender.bucket(0))
    with pytest.raises(SyncError, match="no sync is under way"):
        receiver.finish()
    send(receiver, sender, version=7)
    receiver.finish()
    receiver.require(7)


def test_more_buckets_than_announced_are_refused(receiver, sender):
    send(receiver, sender, version=7)
    with pytest.raises(SyncError, match="bucket 3 has 16 bytes; announced were"):
        receiver.accept(replace(sender.bucket(2), index=3))


def test_an_incomplete_transfer_names_what_is_missing(receiver, sender):
    receiver.begin(sender.manifest(7))
    receiver.accept(sender.bucket(0))
    with pytest.raises(SyncError, match="version 7 is incomplete: 1 of 3 tensors arrived; missing b, c"):
        receiver.finish()


def test_a_failed_transfer_takes_the_old_version_out_of_use(receiver, sender):
    send(receiver, sender, version=7)
    receiver.finish()
    with pytest.raises(SyncError):
        receiver.begin(WeightManifest(version=8, tensors=(), bucket_bytes=()))
    with pytest.raises(StaleGeneratorError, match="broken"):
        receiver.require(7)


def test_a_foreign_error_in_the_guard_becomes_a_sync_error_that_names_it(receiver, sender):
    send(receiver, sender, version=7)
    receiver.finish()
    with pytest.raises(SyncError, match="loading failed with ZeroDivisionError: bad luck"), receiver.guard():
        raise ZeroDivisionError("bad luck")
    assert receiver.state is SyncState.BROKEN


def test_an_interrupt_in_the_guard_passes_and_breaks_the_receiver(receiver):
    with pytest.raises(KeyboardInterrupt), receiver.guard():
        raise KeyboardInterrupt
    assert receiver.state is SyncState.BROKEN


def test_a_transport_without_bytes_is_held_to_names_order_and_completeness(receiver, sender):
    receiver.begin(sender.manifest(7))
    receiver.accept_unhashed(["a", "b"])
    with pytest.raises(SyncError, match="2 of 3 tensors arrived; missing c"):
        receiver.finish()
    receiver.begin(sender.manifest(7))
    with pytest.raises(SyncError, match="tensors b came where a were announced"):
        receiver.accept_unhashed(["b"])
    receiver.begin(sender.manifest(7))
    receiver.accept_unhashed(["a", "b", "c"])
    assert receiver.finish().digest.startswith("names-only:")
    receiver.require(7)
