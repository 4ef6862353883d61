from __future__ import annotations

import numpy as np
import pytest

from rlhf_ray.errors import SyncError
from rlhf_ray.types import Ragged
from rlhf_ray.weight_sync.probe import check_probe


def ragged(*rows: list[float]) -> Ragged:
    return Ragged.from_rows(rows, np.float64)


def test_the_gap_is_the_largest_difference():
    gap = check_probe(ragged([-1.0, -2.0], [-3.0]), ragged([-1.0, -2.25], [-3.125]), version=4, limit=0.25)
    assert gap == 0.25


def test_a_gap_above_the_limit_names_version_row_and_token():
    ours, theirs = ragged([-1.0, -2.0], [-3.0, -4.0]), ragged([-1.0, -2.0], [-3.0, -4.5])
    with pytest.raises(
        SyncError,
        match=r"version 4 .* disagree by 0\.5 nats \(limit 0\.25\) at token 1 of probe 1: -4\.0+ against -4\.5",
    ):
        check_probe(ours, theirs, version=4, limit=0.25)


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_number_that_is_not_finite_never_passes(bad):
    with pytest.raises(SyncError, match="token 0 of probe 1"):
        check_probe(ragged([-1.0], [bad]), ragged([-1.0], [-1.0]), version=0, limit=1e9)
