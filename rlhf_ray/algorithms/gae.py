"""Generalised advantage estimation. Legend: B rows, T response slots; values[t] is read before token t."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    response_mask: Tensor,
    *,
    gamma: float,
    lam: float,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A_t = d_t + gamma * lam * A_{t+1}, d_t = r_t + gamma * V_{t+1} - V_t; returns R_t = A_t + V_t. (Schulman 2016)

    All [B, T]; the mask is True on a row's first slots. V past a row's last slot is `bootstrap` [B], or 0: terminal.
    What stands outside the mask, however large, changes nothing; both results are 0 there.
    """
    kept = response_mask.bool()
    zeros = torch.zeros_like(values)
    values = torch.where(kept, values, zeros)
    next_values = torch.cat([values[:, 1:], zeros[:, :1]], dim=1)
    if bootstrap is not None:
        is_last = kept & ~torch.cat([kept[:, 1:], torch.zeros_like(kept[:, :1])], dim=1)
        next_values = torch.where(is_last, bootstrap.to(values.dtype).unsqueeze(1), next_values)
    deltas = torch.where(kept, rewards + gamma * next_values - values, zeros)
    advantages = torch.empty_like(deltas)
    running = torch.zeros_like(deltas[:, :1].sum(dim=1))
    for t in reversed(range(deltas.shape[1])):
        running = deltas[:, t] + gamma * lam * running
        advantages[:, t] = running
    return advantages, advantages + values
