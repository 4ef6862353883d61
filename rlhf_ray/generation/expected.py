"""What a generator knows of a model directory: the tensors it must be sent, and the ids it may draw."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from rlhf_ray.models.vocabulary import num_token_ids
from rlhf_ray.weight_sync.buckets import TensorMeta


def untied_config(model_path: Path) -> PretrainedConfig:
    """The directory's configuration with input and output embeddings apart.

    vLLM on CPUs packs a tied head when it loads it and then never again: a later sync would leave it stale, without an
    error. So generators always keep the two apart, and learners send both.
    """
    config = AutoConfig.from_pretrained(model_path, local_files_only=True, trust_remote_code=False)
    config.tie_word_embeddings = False
    return config


def ids_to_sample(model_path: Path) -> int | None:
    """Ids from here on belong to no token and are never drawn; None: every embedding row is a token's."""
    known, rows = num_token_ids(model_path), int(untied_config(model_path).vocab_size)
    return known if known is not None and known < rows else None


def expected_weights(model_path: Path, *, dtype: str) -> dict[str, TensorMeta]:
    """Name and shape of every tensor of the architecture, the head spelled out, in the generator's dtype.

    Taken from the architecture rather than from the weight files, which may leave out a tied head.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(untied_config(model_path), trust_remote_code=False)
    return {name: TensorMeta(tuple(tensor.shape), dtype) for name, tensor in model.state_dict().items()}
