"""Masks and masked reductions. True (or 1) means: kept, trained on.

Legend: B rows, T response slots. Masks come from lengths; comparing tokens with the pad id would lose a real EOS where
pad and EOS share an id.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def mask_from_lengths(lengths: Tensor, *, width: int) -> Tensor:
    """lengths [B] -> bool [B, width], True on a row's first `length` slots."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)


def masked_sum(values: Tensor, mask: Tensor, *, dim: int | None = None) -> Tensor:
    """Sum of the kept values; what stands elsewhere, NaN included, has no effect."""
    kept = torch.where(mask.bool(), values, torch.zeros_like(values))
    return kept.sum() if dim is None else kept.sum(dim)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the kept values; 0 where nothing is kept."""
    return masked_sum(values, mask) / mask.sum().clamp(min=1)


def masked_whiten(
    values: Tensor, mask: Tensor, *, shift_mean: bool, unbiased: bool = False, eps: float = 1e-8
) -> Tensor:
    """(x - mean) / sqrt(var + eps) over every kept value of the batch; 0 elsewhere.

    With shift_mean False the mean is added back (rewards). Variance is biased unless asked otherwise (N+ and
    lm-human-preferences use the biased one, TRL and verl the other). One kept value has variance 0: finite.
    """
    kept = mask.bool()
    mean = masked_mean(values, kept)
    squares = masked_sum((values - mean) ** 2, kept)
    variance = squares / (kept.sum() - int(unbiased)).clamp(min=1)
    whitened = (values - mean) * torch.rsqrt(variance + eps)
    if not shift_mean:
        whitened = whitened + mean
    return torch.where(kept, whitened, torch.zeros_like(whitened))


def response_lengths(tokens: Tensor, *, eos_token_ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Length up to and including the first end token, and whether there is one: int [B], bool [B] from tokens [B, T].

    A row without an end token has length T. The last token's index is length - 1.
    """
    ends = torch.isin(tokens, torch.tensor(list(eos_token_ids), device=tokens.device))
    contains_eos = ends.any(dim=1)
    first = ends.int().argmax(dim=1) if tokens.shape[1] else torch.zeros_like(contains_eos, dtype=torch.long)
    return torch.where(contains_eos, first + 1, torch.full_like(first, tokens.shape[1])), contains_eos


def truncate_after_first_eos(tokens: Tensor, *, eos_token_ids: Sequence[int], pad_token_id: int) -> Tensor:
    """tokens [B, T] with everything after a row's first end token replaced by pad (N+, "EOS trick")."""
    lengths, _ = response_lengths(tokens, eos_token_ids=eos_token_ids)
    kept = mask_from_lengths(lengths, width=tokens.shape[1])
    return torch.where(kept, tokens, torch.full_like(tokens, pad_token_id))


def position_ids(attention_mask: Tensor) -> Tensor:
    """Exclusive running count of real tokens, 0 on pads: right under left and right padding. int [B, T]."""
    real = attention_mask.long()
    return (real.cumsum(dim=1) - real) * real
