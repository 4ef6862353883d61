"""From models to ordinary Hugging Face directories: config, safetensors, generation config, tokenizer files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rlhf_ray.models.directory import SCORE_MEAN_KEY, SCORE_STD_KEY
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.models.quiet import quiet_transformers
from rlhf_ray.models.scalar_model import ScalarModel

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
)


def save_language_model(model: LanguageModel, folder: Path, *, tokenizer_source: Path, dtype: torch.dtype) -> None:
    """Loadable by AutoModelForCausalLM and vLLM; the tie flag and the list of end tokens stay as they were.

    `dtype` is what is written; the model itself keeps its own.
    """
    _save(model.causal, folder, tokenizer_source=tokenizer_source, dtype=dtype)


def save_scalar_model(model: ScalarModel, folder: Path, *, tokenizer_source: Path, dtype: torch.dtype) -> None:
    """Loadable by AutoModelForSequenceClassification, whose logits are raw scores; mean and std go into config.json."""
    setattr(model.classifier.config, SCORE_MEAN_KEY, model.score_mean.item())
    setattr(model.classifier.config, SCORE_STD_KEY, model.score_std.item())
    _save(model.classifier, folder, tokenizer_source=tokenizer_source, dtype=dtype)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Byte for byte, so that the tokenizer's digest stays the same."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def _save(model: PreTrainedModel, folder: Path, *, tokenizer_source: Path, dtype: torch.dtype) -> None:
    own = model.config.dtype
    model.config.dtype = dtype
    try:
        with quiet_transformers():
            model.save_pretrained(folder, state_dict=_as_type(model.state_dict(), dtype))
    finally:
        model.config.dtype = own
    copy_tokenizer(tokenizer_source, folder)


def _as_type(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Tensors that share memory share it afterwards, too: tied ones are written once."""
    converted: dict[int, Tensor] = {}
    return {
        name: converted.setdefault(tensor.data_ptr(), tensor.to(dtype)) if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
    }
