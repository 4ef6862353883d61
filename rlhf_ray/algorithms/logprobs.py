"""Log-probs and entropy of a language model's tokens, without ever holding [all tokens, vocabulary] logits.

Legend: N tokens laid end to end, d hidden width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def logprobs_and_entropy(logits: Tensor, labels: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """log softmax(z)[label] and H = logsumexp(z) - sum softmax(z) * z, with z = logits / temperature.

    logits [..., V], labels [...] -> two [...], nats. Half precision is raised to float32; temperature > 0.
    """
    scaled = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    log_partition = torch.logsumexp(scaled, dim=-1)
    chosen = scaled.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    entropy = log_partition - (scaled.softmax(dim=-1) * scaled).sum(dim=-1)
    return chosen - log_partition, entropy


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
