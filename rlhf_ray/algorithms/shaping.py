"""From one score an answer and a KL per token to a reward per token.

Legend: B rows, T response slots (the window). Masks are True on a row's first `length` slots and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor


class MissingEos(StrEnum):
    """What happens to the score of an answer that did not end by itself."""

    REPLACE = "replace"
    SUBTRACT = "subtract"
    NONE = "none"


class ScoreSlot(StrEnum):
    """Where a score lands."""

    EOS = "eos"  # on the last response token (OpenRLHF, verl)
    AFTER_EOS = "after_eos"  # one slot further, or the last slot where the answer fills the window (N+, TRL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedRewards:
    """Rewards per token, and the part of them that does not come from the score."""

    rewards: Tensor  # [B, T], 0 outside the answer (and its score slot)
    non_score: Tensor  # [B, T]


def apply_missing_eos(scores: Tensor, finished: Tensor, *, rule: MissingEos, value: float) -> Tensor:
    """Scores [B] after the rule for answers that did not end by themselves (finished [B] bool).

    REPLACE: the score becomes `value` (N+: -1). SUBTRACT: `value` is added, so a penalty is negative under both rules
    (TRL's missing_eos_penalty p is value -p). NONE: unchanged.
    """
    match rule:
        case MissingEos.REPLACE:
            return torch.where(finished, scores, torch.full_like(scores, value))
        case MissingEos.SUBTRACT:
            return torch.where(finished, scores, scores + value)
        case MissingEos.NONE:
            return scores


def score_slots(lengths: Tensor, *, width: int, slot: ScoreSlot) -> Tensor:
    """Where each row's score lands in a window of `width` slots, int [B]; -1 for a row without response tokens."""
    match slot:
        case ScoreSlot.EOS:
            return lengths - 1
        case ScoreSlot.AFTER_EOS:
            return torch.where(lengths > 0, lengths.clamp(max=width - 1), torch.full_like(lengths, -1))


def mask_to_score(response_mask: Tensor, *, slot: ScoreSlot) -> Tensor:
    """The response mask, extended to the score's slot: what GAE and the value loss run over. bool [B, T]."""
    width = response_mask.shape[1]
    last = score_slots(response_mask.sum(dim=1), width=width, slot=slot)
    return torch.arange(width, device=response_mask.device) <= last.unsqueeze(1)


def shape_rewards(
    kl: Tensor, scores: Tensor, response_mask: Tensor, *, kl_coef: float, score_slot: ScoreSlot
) -> ShapedRewards:
    """r_t = -kl_coef * KL_t on response tokens, plus the score in its one slot (Stiennon 2020; Ziegler 2019).

    kl [B, T], scores [B], response_mask [B, T]. A row without response tokens gets no reward at all.
    """
    non_score = torch.where(response_mask.bool(), -kl_coef * kl, torch.zeros_like(kl))
    slots = score_slots(response_mask.sum(dim=1), width=kl.shape[1], slot=score_slot)
    here = torch.arange(kl.shape[1], device=kl.device) == slots.unsqueeze(1)
    rewards = non_score + torch.where(here, scores.to(kl.dtype).unsqueeze(1), torch.zeros_like(kl))
    return ShapedRewards(rewards=rewards, non_score=non_score)
