"""How varied answers are, from their token ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.types import Mean, Ragged


def distinct_n(rows: Ragged, *, n: int) -> float | None:
    """Different n-grams / n-grams, over all rows together (Li et al. 2016); None when no row has one."""
    codes, _ = _ngram_codes(rows, n=n)
    return len(np.unique(codes)) / len(codes) if len(codes) else None


def repeated_ngram_share(rows: Ragged, *, n: int) -> Mean:
    """Mean over rows that have an n-gram of 1 - different / all n-grams of the row."""
    codes, row_of = _ngram_codes(rows, n=n)
    totals = np.bincount(row_of, minlength=len(rows))
    kinds = np.unique(np.stack([row_of, codes]), axis=1)[0]
    different = np.bincount(kinds, minlength=len(rows))
    has_any = totals > 0
    shares = 1.0 - different[has_any] / totals[has_any]
    return Mean(float(shares.sum()), float(has_any.sum()))


def _ngram_codes(rows: Ragged, *, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each n-gram, equal where the n-grams are, and the row each stands in."""
    row_of = np.repeat(np.arange(len(rows), dtype=np.int64), rows.lengths)
    num_starts = max(len(row_of) - n + 1, 0)
    codes = np.zeros(num_starts, dtype=np.int64)
    tokens = rows.values.astype(np.int64)
    for place in range(n):
        # renumbered at each step: codes stay below their count, so the pair number cannot overflow
        pairs = codes * (int(tokens.max(initial=0)) + 1) + tokens[place : place + num_starts]
        codes = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    inside = row_of[:num_starts] == row_of[n - 1 : n - 1 + num_starts]
    return codes[inside], row_of[:num_starts][inside]
