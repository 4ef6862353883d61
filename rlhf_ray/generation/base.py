"""The protocol every generator backend follows."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.types import Bucket, Completions, Prompts, Sampling, SyncReceipt, WeightManifest


class Generator(Protocol):
    """Draws answers from the policy whose weights it was sent.

    A generator starts without usable weights. Between `begin_sync` and a successful `finish_sync`, and after any error
    in between, it refuses to generate; a new `begin_sync` always starts over and heals it.
    """

    def generate(self, prompts: Prompts, *, sampling: Sampling, seeds: NDArray[np.uint64], version: int) -> Completions:
        """Answers in prompt order, `sampling.num_samples` side by side per prompt; one seed per answer.

        Raises StaleGeneratorError unless weights of exactly `version` are complete and confirmed.
        """

    def begin_sync(self, manifest: WeightManifest) -> None:
        """Check that the manifest is exactly this model's tensors; SyncError names the missing, extra and misshapen."""

    def receive(self, bucket: Bucket) -> None:
        """Hash the bytes, compare with the bucket's digest, load. SyncError on a mismatch, a repeat or a gap."""

    def finish_sync(self) -> SyncReceipt:
        """Put the weights in force once all buckets have arrived, drop cached prefixes, report what was received."""
