"""The receiving half of a weight transfer: a state machine that every generator shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

import torch

from rlhf_ray.errors import StaleGeneratorError, SyncError
from rlhf_ray.types import Bucket, SyncReceipt, TensorSpec, WeightManifest
from rlhf_ray.weight_sync.buckets import ALIGNMENT_BYTES, TensorMeta, combined_digest, digest, tensor_views

NAMES_SHOWN = 5


class SyncState(StrEnum):
    """Whether a receiver's weights may be used."""

    IDLE = "idle"  # nothing was ever sent
    RECEIVING = "receiving"  # a transfer has begun: old and new weights are mixed
    READY = "ready"  # complete and confirmed
    BROKEN = "broken"  # a transfer failed: only a new one heals it


class SyncReceiver:
    """Checks every step of a transfer. Any SyncError leaves it broken until the next `begin`."""

    def __init__(self, expected: Mapping[str, TensorMeta]) -> None:
        self._expected = dict(expected)
        self._state = SyncState.IDLE
        self._manifest = WeightManifest(version=-1, tensors=(), bucket_bytes=())
        self._digests: list[str] = []  # of the buckets received so far
        self._arrived: list[str] = []  # names of the tensors received so far

    @property
    def state(self) -> SyncState:
        """Where the receiver stands."""
        return self._state

    def require(self, version: int) -> None:
        """StaleGeneratorError unless weights of exactly `version` are in force."""
        if self._state is not SyncState.READY:
            raise StaleGeneratorError(
                f"weights are not usable (state: {self._state}); send version {version} completely first"
            )
        if self._manifest.version != version:
            raise StaleGeneratorError(
                f"version {version} was asked for, version {self._manifest.version} is loaded; sync first"
            )

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Whatever goes wrong inside leaves the receiver broken; errors of other types become SyncError."""
        try:
            yield
        except SyncError:
            self._state = SyncState.BROKEN
            raise
        except Exception as error:
            self._state = SyncState.BROKEN
            raise SyncError(f"loading failed with {type(error).__name__}: {error}") from error
        except BaseException:
            self._state = SyncState.BROKEN
            raise

    def begin(self, manifest: WeightManifest) -> None:
        """Start over. SyncError names every tensor that is missing, extra or unlike the model's."""
        with self.guard():
            self._digests, self._arrived = [], []
            check_names(manifest, self._expected)
            check_layout(manifest)
            self._manifest = manifest
            self._state = SyncState.RECEIVING

    def accept(self, bucket: Bucket) -> list[tuple[str, torch.Tensor]]:
        """The bucket's tensors as read-only views, once version, order, size and digest are as announced."""
        with self.guard():
            self._require_receiving()
            index, size = len(self._digests), bucket.data.nbytes
            if bucket.version != self._manifest.version:
                raise SyncError(
                    f"a bucket of version {bucket.version} came in a sync of version {self._manifest.version}"
                )
            if bucket.index != index:
                what = "was repeated" if bucket.index < index else "came too early"
                raise SyncError(f"bucket {bucket.index} {what}; bucket {index} is next")
            if index >= len(self._manifest.bucket_bytes) or size != self._manifest.bucket_bytes[index]:
                raise SyncError(f"bucket {index} has {size} bytes; announced were {self._manifest.bucket_bytes}")
            received = digest(bucket.data)
            if received != bucket.digest:
                raise SyncError(
                    f"bucket {index} was damaged on the way: sent {bucket.digest[:16]}, received {received[:16]}"
                )
            self._digests.append(received)
            inside = [spec for spec in self._manifest.tensors if spec.bucket == index]
            self._arrived += [spec.name for spec in inside]
            return tensor_views(bucket.data, inside)

    def accept_unhashed(self, names: Sequence[str]) -> None:
        """For transports that give no bytes to hash: check that exactly the next announced names come."""
        with self.guard():
            self._require_receiving()
            start = len(self._arrived)
            announced = [spec.name for spec in self._manifest.tensors[start : start + len(names)]]
            if list(names) != announced:
                raise SyncError(f"tensors {_shorten(names)} came where {_shorten(announced)} were announced")
            self._arrived += names

    def finish(self) -> SyncReceipt:
        """Confirm that everything announced has arrived. SyncError names the first tensors that have not.

        The digest begins with "names-only:" when not all bytes were hashed.
        """
        with self.guard():
            self._require_receiving()
            arrived, tensors = set(self._arrived), self._manifest.tensors
            lost = [spec.name for spec in tensors if spec.name not in arrived]
            if lost:
                raise SyncError(
                    f"the sync of version {self._manifest.version} is incomplete: {len(arrived)} of {len(tensors)} "
                    f"tensors arrived; missing {_shorten(lost)}"
                )
            self._state = SyncState.READY
            hashed = len(self._digests) == len(self._manifest.bucket_bytes)
            combined = combined_digest(self._digests) if hashed else f"names-only:{combined_digest(self._arrived)}"
            return SyncReceipt(version=self._manifest.version, digest=combined)

    def _require_receiving(self) -> None:
        if self._state is not SyncState.RECEIVING:
            raise SyncError(f"no sync is under way (state: {self._state}); begin one first")


def check_names(manifest: WeightManifest, expected: Mapping[str, TensorMeta]) -> None:
    """SyncError unless the manifest holds each expected tensor once, in its shape and dtype, and nothing else."""
    sent = {spec.name: TensorMeta(spec.shape, spec.dtype) for spec in manifest.tensors}
    twice = [name for name, count in Counter(spec.name for spec in manifest.tensors).items() if count > 1]
    unlike = [
        f"{name} is {sent[name]}, the model has {meta}"
        for name, meta in expected.items()
        if name in sent and sent[name] != meta
    ]
    faults = {
        "missing": [name for name in expected if name not in sent],
        "unknown to the model": [name for name in sent if name not in expected],
        "sent twice": twice,
        "unlike the model": unlike,
    }
    told = [f"{what}: {_shorten(names)}" for what, names in faults.items() if names]
    if told:
        raise SyncError(f"the manifest of version {manifest.version} is not this model's: {'; '.join(told)}")


def check_layout(manifest: WeightManifest) -> None:
    """SyncError unless every tensor lies inside its bucket, aligned, with as many bytes as its shape needs."""
    for spec in manifest.tensors:
        if not 0 <= spec.bucket < len(manifest.bucket_bytes) or not _fits(spec, manifest.bucket_bytes[spec.bucket]):
            raise SyncError(
                f"{spec.name}: {spec.num_bytes} bytes at {spec.offset} of bucket {spec.bucket} do not fit "
                f"{TensorMeta(spec.shape, spec.dtype)} and bucket sizes {manifest.bucket_bytes}"
            )


def _fits(spec: TensorSpec, bucket_bytes: int) -> bool:
    right_size = spec.num_bytes == TensorMeta(spec.shape, spec.dtype).num_bytes
    return right_size and spec.offset % ALIGNMENT_BYTES == 0 and 0 <= spec.offset <= bucket_bytes - spec.num_bytes


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
