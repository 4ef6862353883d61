"""From model directories to models: complete or refused, nothing silently new."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GenerationConfig,
    PreTrainedModel,
)

from rlhf_ray.errors import ModelError
from rlhf_ray.models.directory import (
    SCORE_HEAD,
    ModelDirectory,
    inspect_model,
    require_language_model,
    require_reward_model,
)
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.models.pretrained import from_directory
from rlhf_ray.models.scalar_model import ScalarModel

PROJECTION_TOLERANCE = 1e-4


class HeadStart(StrEnum):
    """Where the head of a scalar model comes from."""

    STORED = "stored"  # a reward model directory, head and normalisation included
    RANDOM = "random"  # new, N(0, 1/sqrt(d + 1)), on a language model (Huang et al. 2024, detail 11)
    ZERO = "zero"  # new, all 0, on a language model: every value starts at 0


def load_language_model(path: Path, *, dtype: torch.dtype) -> LanguageModel:
    """A policy or reference. Raises ModelError unless every tensor comes from the directory."""
    directory = inspect_model(path)
    require_language_model(directory)
    causal = from_directory(AutoModelForCausalLM, directory, dtype=dtype)
    causal.generation_config = _token_ids_only(directory)
    model = LanguageModel(causal)
    if model.tied != directory.tied:
        raise ModelError(
            f"{path}: config.json does not say whether the head is tied, and {directory.architecture} takes it as "
            f"{'tied' if model.tied else 'untied'}, unlike its tensors; set tie_word_embeddings to "
            f"{'true' if directory.tied else 'false'}"
        )
    _check_projection(model, directory)
    return model


def load_scalar_model(path: Path, *, start: HeadStart, head: str, seed: int, dtype: torch.dtype) -> ScalarModel:
    """A reward model or critic.

    `head` names the stored head (usually "score") and counts for STORED only; `seed` counts for RANDOM only.
    Raises ModelError for a missing or many-valued head; a random head is never made unless asked for.
    """
    directory = inspect_model(path)
    if start is HeadStart.STORED:
        require_reward_model(directory, head=head)
    else:
        require_language_model(directory)
    classifier = from_directory(AutoModelForSequenceClassification, directory, dtype=dtype)
    weight = _score_weight(classifier, directory)
    with torch.no_grad():
        match start:
            case HeadStart.STORED:
                weight.copy_(_stored_tensor(directory, f"{head}.weight"))
            case HeadStart.RANDOM:
                std = (directory.hidden_size + 1) ** -0.5
                weight.copy_(torch.empty(weight.shape).normal_(0, std, generator=torch.Generator().manual_seed(seed)))
            case HeadStart.ZERO:
                weight.zero_()
    mean, std = directory.score_mean, directory.score_std
    return ScalarModel(classifier, mean=0.0 if mean is None else mean, std=1.0 if std is None else std)


def _token_ids_only(directory: ModelDirectory) -> GenerationConfig:
    """The end and pad tokens; sampling defaults stay out, they never leak into a run and may not even be valid."""
    eos = list(directory.eos_token_ids)
    return GenerationConfig(eos_token_id=eos[0] if len(eos) == 1 else eos or None, pad_token_id=directory.pad_token_id)


def _score_weight(classifier: PreTrainedModel, directory: ModelDirectory) -> nn.Parameter:
    head = dict(classifier.named_children()).get(SCORE_HEAD)
    if not isinstance(head, nn.Linear) or head.bias is not None:
        raise ModelError(
            f"{directory.path}: {type(classifier).__name__} has no plain `{SCORE_HEAD}` head; "
            "decoder-only families such as Llama, Qwen2, GPT-2 and GPT-NeoX have"
        )
    return head.weight


def _stored_tensor(directory: ModelDirectory, name: str) -> Tensor:
    with safe_open(directory.tensors[name].file, framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _check_projection(model: LanguageModel, directory: ModelDirectory) -> None:
    """Some families scale or cap logits after the head; training them through the head alone would be wrong."""
    input_ids = torch.arange(2).reshape(1, 2)
    with torch.inference_mode():
        whole = model.causal(input_ids=input_ids, use_cache=False).logits
        parts = model.project(model.hidden_states(input_ids))
    if not torch.allclose(whole, parts, rtol=PROJECTION_TOLERANCE, atol=PROJECTION_TOLERANCE):
        raise ModelError(
            f"{directory.path}: {directory.architecture} changes logits after its output head (gap "
            f"{(whole - parts).abs().max().item():.3g}); use a family that does not, such as Llama, Qwen2 or GPT-2"
        )
