"""What a language model says about response tokens, for one micro-batch and for whole batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rlhf_ray.algorithms.logprobs import token_logprobs
from rlhf_ray.models.batching import MicroBatch, RowCollector, micro_batches, response_offsets
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.types import PolicyOutputs, Ragged, Sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDistribution:
    """Which distribution log-probs are of. The same in policy, reference and generator, or every ratio is wrong."""

    temperature: float
    num_token_ids: int | None  # ids the tokenizer knows: further embedding rows get probability 0; None: all rows count
    chunk_tokens: int  # tokens whose logits exist at once


def over_known_ids(distribution: TokenDistribution, model_path: Path) -> TokenDistribution:
    """The same over the ids that the model's tokenizer knows: generators restrict themselves alike."""
    return replace(distribution, num_token_ids=inspect_model(model_path).ids_to_sample)


def policy_micro_batch(
    model: LanguageModel, micro_batch: MicroBatch, *, distribution: TokenDistribution
) -> PolicyOutputs[Tensor]:
    """logprobs [n], entropy [n]; gradients flow where they are enabled."""
    hidden = model.hidden_states(micro_batch.input_ids).flatten(0, 1)
    logprobs, entropy = token_logprobs(
        hidden.index_select(0, micro_batch.predicting_cells),
        micro_batch.labels,
        project=model.project,
        temperature=distribution.temperature,
        chunk_tokens=distribution.chunk_tokens,
        num_valid=distribution.num_token_ids,
    )
    return PolicyOutputs(logprobs=logprobs, entropy=entropy)


@torch.no_grad()
def policy_outputs(
    model: LanguageModel, sequences: Sequences, *, max_tokens: int, distribution: TokenDistribution
) -> PolicyOutputs[Ragged]:
    """All rows, in order, at most `max_tokens` padded tokens at a time."""
    offsets = response_offsets(sequences)
    logprobs, entropy = RowCollector(offsets), RowCollector(offsets)
    rows = np.arange(len(sequences.tokens))
    for micro_batch in micro_batches(
        sequences, rows=rows, rows_per_group=1, max_tokens=max_tokens, device=model.device
    ):
        outputs = policy_micro_batch(model, micro_batch, distribution=distribution)
        logprobs.add(outputs.logprobs, rows=micro_batch.rows)
        entropy.add(outputs.entropy, rows=micro_batch.rows)
    return PolicyOutputs(logprobs=logprobs.ragged(), entropy=entropy.ragged())
