"""Log-probs and entropy of a language model's tokens, without ever holding [all tokens, vocabulary] logits.

Legend: N tokens laid end to end, d hidden width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint


def logprobs_and_entropy(logits: Tensor, labels: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """log softmax(z)[label] and H = logsumexp(z) - sum softmax(z) * z, with z = logits / temperature.

    logits [..., V], labels [...] -> two [...], nats. Half precision is raised to float32; temperature > 0.
    """
    index = labels.long().unsqueeze(-1)
    both: tuple[Tensor, Tensor] = _LogprobsAndEntropy.apply(logits, index, temperature)  # type: ignore[no-untyped-call]  # torch's own signature
    return both


class _LogprobsAndEntropy(torch.autograd.Function):
    """One node for both outputs, which keeps the logits and nothing else of their size.

    As two graphs, the one that a loss does not use would be made again by a checkpoint and never be freed by the
    backward pass: every chunk's entropy would stay until the end.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        scaled = _scaled(logits, temperature)
        log_partition = torch.logsumexp(scaled, dim=-1, keepdim=True)
        logprobs = scaled.gather(-1, labels) - log_partition
        probabilities = (scaled - log_partition).exp_()
        entropy = log_partition - probabilities.mul_(scaled).sum(dim=-1, keepdim=True)
        ctx.save_for_backward(logits, labels, log_partition, entropy)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logprobs.squeeze(-1), entropy.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprobs_grad: Tensor | None, entropy_grad: Tensor | None) -> tuple[Tensor, None, None]:
        """d logprob / dz_j = [j = label] - p_j; dH / dz_j = -p_j (log p_j + H)."""
        logits, labels, log_partition, entropy = ctx.saved_tensors
        log_probabilities = _scaled(logits, ctx.temperature).sub_(log_partition)
        probabilities = log_probabilities.exp()
        weight = torch.zeros_like(log_partition) if logprobs_grad is None else -logprobs_grad.unsqueeze(-1)
        if entropy_grad is not None:
            weight = weight - entropy_grad.unsqueeze(-1) * log_probabilities.add_(entropy)
        gradient = probabilities.mul_(weight)
        if logprobs_grad is not None:
            gradient.scatter_add_(-1, labels, logprobs_grad.unsqueeze(-1))
        return gradient.div_(ctx.temperature).to(logits.dtype), None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature


def token_logprobs(
    hidden: Tensor,
    labels: Tensor,
    *,
    project: Callable[[Tensor], Tensor],
    temperature: float,
    chunk_tokens: int,
    num_valid: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`logprobs_and_entropy` of project(hidden), in chunks of tokens.

    hidden [N, d], labels [N] -> two [N]. `project` is the head, [n, d] -> [n, V]. Columns from `num_valid` on
    belong to no token: they get probability 0, and no label may name one. Differentiable in hidden and in the head;
    with gradients a chunk's logits are made again on the way back, so that the peak is one chunk either way.
    """

    def chunk(hidden_part: Tensor, labels_part: Tensor) -> tuple[Tensor, Tensor]:
        return logprobs_and_entropy(project(hidden_part)[:, :num_valid], labels_part, temperature=temperature)

    parts = []
    # at least one chunk, so that an empty micro-batch still hangs on the graph
    for start in range(0, max(len(labels), 1), chunk_tokens):
        piece = (hidden[start : start + chunk_tokens], labels[start : start + chunk_tokens])
        if torch.is_grad_enabled() and len(labels) > chunk_tokens:
            # no dropout in a head: nothing random to replay
            parts.append(checkpoint(chunk, *piece, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(chunk(*piece))
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropy for _, entropy in parts])
