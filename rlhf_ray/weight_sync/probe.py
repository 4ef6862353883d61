"""The last word on a weight transfer: do generator and learner compute the same thing?"""

from __future__ import annotations

import numpy as np

from rlhf_ray.errors import SyncError
from rlhf_ray.types import Ragged


def check_probe(generator_logprobs: Ragged, learner_logprobs: Ragged, *, version: int, limit: float) -> float:
    """max |generator - learner| over the tokens of fixed prompts' answers, in nats.

    It stands in for a digest where a transport gives no bytes to hash, and finds what digests cannot: right bytes in
    the wrong place. Raises SyncError above `limit`, or when a number is not finite.
    """
    assert np.array_equal(generator_logprobs.offsets, learner_logprobs.offsets), "the same answers, row by row"
    assert len(generator_logprobs.values) > 0, "a probe needs at least one token"
    ours = generator_logprobs.values.astype(np.float64)
    gaps = np.abs(ours - learner_logprobs.values.astype(np.float64))
    worst = int(np.argmax(np.where(np.isfinite(gaps), gaps, np.inf)))
    if not gaps[worst] <= limit:
        row = int(np.searchsorted(generator_logprobs.offsets, worst, side="right")) - 1
        raise SyncError(
            f"after the sync of version {version} generator and learner disagree by {gaps[worst]:.3g} nats (limit "
            f"{limit:g}) at token {worst - int(generator_logprobs.offsets[row])} of probe {row}: "
            f"{generator_logprobs.values[worst]:.6f} against {learner_logprobs.values[worst]:.6f}"
        )
    return float(gaps[worst])
