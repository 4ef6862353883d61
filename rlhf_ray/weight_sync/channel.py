"""How weights get from a learner to its generators: one interface, one file per transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlhf_ray.types import Bucket, SyncReceipt, WeightManifest
from rlhf_ray.weight_sync.buckets import WeightSender


class WeightChannel(Protocol):
    """Brings the current weights to every generator behind it."""

    def send(self, *, version: int) -> tuple[SyncReceipt, ...]:
        """Each generator's confirmation, in order. SyncError when one cannot confirm; sending again heals it."""


class BucketReceiver(Protocol):
    """The part of a generator that buckets are sent to."""

    def begin_sync(self, manifest: WeightManifest) -> None:
        """Check what will come."""

    def receive(self, bucket: Bucket) -> None:
        """Check and load one bucket."""

    def finish_sync(self) -> SyncReceipt:
        """Put the weights in force."""


class BucketChannel:
    """Sender and generators in one process; bucket k is loaded everywhere before k + 1 is written."""

    def __init__(self, sender: WeightSender, receivers: Sequence[BucketReceiver]) -> None:
        self._sender = sender
        self._receivers = tuple(receivers)

    def send(self, *, version: int) -> tuple[SyncReceipt, ...]:
        """See WeightChannel."""
        manifest = self._sender.manifest(version)
        for receiver in self._receivers:
            receiver.begin_sync(manifest)
        for index in range(len(manifest.bucket_bytes)):
            bucket = self._sender.bucket(index)
            for receiver in self._receivers:
                receiver.receive(bucket)
        return tuple(receiver.finish_sync() for receiver in self._receivers)
