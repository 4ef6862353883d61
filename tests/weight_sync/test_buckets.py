from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from rlhf_ray.errors import SyncError
from rlhf_ray.weight_sync.buckets import TensorMeta, WeightSender, digest, plan_buckets, tensor_views


def specs(*sizes: int) -> list[tuple[str, TensorMeta]]:
    return [(f"t{i}", TensorMeta((size,), "float32")) for i, size in enumerate(sizes)]


def test_tensors_lie_in_order_at_64_byte_offsets_and_fill_a_bucket_before_the_next():
    # 40, 12, 80 and 4 bytes in buckets of 128: the third would end at 208
    manifest = plan_buckets(specs(10, 3, 20, 1), version=5, bucket_bytes=128)
    assert [(spec.name, spec.bucket, spec.offset, spec.num_bytes) for spec in manifest.tensors] == [
        ("t0", 0, 0, 40),
        ("t1", 0, 64, 12),
        ("t2", 1, 0, 80),
        ("t3", 2, 0, 4),
    ]
    assert manifest.bucket_bytes == (76, 80, 4)
    assert manifest.version == 5


def test_a_tensor_that_fits_to_the_byte_stays_and_one_byte_more_starts_a_bucket():
    assert plan_buckets(specs(16, 16), version=0, bucket_bytes=128).bucket_bytes == (128,)
    assert plan_buckets(specs(16, 16), version=0, bucket_bytes=127).bucket_bytes == (64, 64)


def test_a_tensor_larger_than_a_bucket_gets_its_own():
    manifest = plan_buckets(specs(1, 1000, 1), version=0, bucket_bytes=128)
    assert manifest.bucket_bytes == (4, 4000, 4)


def test_a_name_sent_twice_is_refused():
    twice = [("a.weight", TensorMeta((1,), "float32"))] * 2
    with pytest.raises(SyncError, match=r"sent twice: \['a.weight'\]"):
        plan_buckets(twice, version=0, bucket_bytes=128)


def test_an_unknown_dtype_is_refused_by_name():
    with pytest.raises(SyncError, match="'float31' is not a torch dtype"):
        plan_buckets([("a", TensorMeta((1,), "float31"))], version=0, bucket_bytes=128)


def test_what_is_read_from_the_buckets_is_what_was_sent_in_any_dtype_and_layout():
    torch.manual_seed(0)
    weights = {
        "plain": torch.randn(5, 3),
        "half": torch.randn(7).bfloat16(),
        "transposed": torch.randn(4, 6).T,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "ids": torch.arange(3),
        "trained": torch.nn.Parameter(torch.randn(2, 2)),
    }
    sender = WeightSender(lambda: iter(weights.items()), bucket_bytes=128)
    manifest = sender.manifest(1)
    received: dict[str, torch.Tensor] = {}
    for index in range(len(manifest.bucket_bytes)):
        data = sender.bucket(index).data
        data.setflags(write=False)
        received.update(tensor_views(data, [spec for spec in manifest.tensors if spec.bucket == index]))
    assert list(received) == list(weights)
    for name, tensor in weights.items():
        assert received[name].dtype == tensor.dtype
        assert torch.equal(received[name], tensor)


def test_views_share_memory_with_the_bucket():
    sender = WeightSender(lambda: iter([("a", torch.zeros(4))]), bucket_bytes=64)
    manifest = sender.manifest(0)
    data = sender.bucket(0).data
    [(_, view)] = tensor_views(data, manifest.tensors)
    data.view(np.float32)[2] = 9.0
    assert view.tolist() == [0.0, 0.0, 9.0, 0.0]


def test_gaps_are_zero_so_that_equal_weights_have_equal_digests():
    sender = WeightSender(lambda: iter([("a", torch.ones(1)), ("b", torch.ones(1))]), bucket_bytes=256)
    sender.manifest(0)
    bucket = sender.bucket(0)
    expected = np.zeros(68, dtype=np.uint8)
    expected[[2, 3, 66, 67]] = [0x80, 0x3F, 0x80, 0x3F]  # 1.0, little-endian
    np.testing.assert_array_equal(bucket.data, expected)
    assert bucket.digest == digest(expected) == hashlib.sha256(expected.tobytes()).hexdigest()


def test_buckets_can_be_read_again_and_out_of_order():
    sender = WeightSender(lambda: iter([(f"t{i}", torch.full((16,), float(i))) for i in range(4)]), bucket_bytes=64)
    sender.manifest(3)
    for index in (2, 2, 0, 3, 1):
        bucket = sender.bucket(index)
        assert (bucket.index, bucket.version) == (index, 3)
        assert set(bucket.data.view(np.float32)) == {float(index)}


def test_in_order_reading_walks_the_weights_once_per_transfer():
    walked: list[str] = []

    def weights():
        for i in range(4):
            walked.append(f"t{i}")
            yield f"t{i}", torch.zeros(16)

    sender = WeightSender(weights, bucket_bytes=64)
    sender.manifest(0)
    walked.clear()
    for index in range(4):
        sender.bucket(index)
    assert walked == ["t0", "t1", "t2", "t3"]


def test_weights_that_no_longer_match_the_plan_are_refused():
    shapes = iter([4, 5])  # as planned, then as sent
    sender = WeightSender(lambda: iter([("a", torch.zeros(next(shapes)))]), bucket_bytes=64)
    sender.manifest(0)
    with pytest.raises(SyncError, match=r"a float32\[4\] was planned, a float32\[5\] came"):
        sender.bucket(0)


def test_weights_that_end_before_the_plan_are_refused():
    passes = iter([["a", "b"], ["a"]])
    sender = WeightSender(lambda: iter([(name, torch.zeros(4)) for name in next(passes)]), bucket_bytes=128)
    sender.manifest(0)
    with pytest.raises(SyncError, match=r"b .* was planned, nothing"):
        sender.bucket(0)


def test_a_bucket_that_was_not_planned_is_refused():
    sender = WeightSender(lambda: iter([("a", torch.zeros(4))]), bucket_bytes=64)
    with pytest.raises(SyncError, match=r"bucket 0 was asked for, but 0 are planned; call manifest\(\) first"):
        sender.bucket(0)
    sender.manifest(0)
    with pytest.raises(SyncError, match="bucket 1 was asked for, but 1 are planned"):
        sender.bucket(1)
