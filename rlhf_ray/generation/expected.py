"""The tensors a generator must be sent."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from rlhf_ray.weight_sync.buckets import TensorMeta


def untied_config(model_path: Path) -> PretrainedConfig:
    """The directory's configuration with input and output embeddings apart.

    vLLM on CPUs packs a tied head when it loads it and then never again: a later sync would leave it stale, without an
    error. So generators always keep the two apart, and learners send both.
    """
    config = AutoConfig.from_pretrained(model_path, local_files_only=True, trust_remote_code=False)
    config.tie_word_embeddings = False
    return config


def expected_weights(model_path: Path, *, dtype: str) -> dict[str, TensorMeta]:
    """Name and shape of every tensor of the architecture, the head spelled out, in the generator's dtype.

    Taken from the architecture rather than from the weight files, which may leave out a tied head.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(untied_config(model_path), trust_remote_code=False)
    return {name: TensorMeta(tuple(tensor.shape), dtype) for name, tensor in model.state_dict().items()}
