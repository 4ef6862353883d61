"""Model classes of transformers against model directories: what does not fit is refused, nothing is silently new."""

from __future__ import annotations

import re

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.conversion_mapping import get_model_conversion_mapping

from rlhf_ray.errors import ModelError
from rlhf_ray.models.directory import CONFIG_FILE, LM_HEADS, SCORE_HEAD, ModelDirectory
from rlhf_ray.models.quiet import quiet_transformers
from rlhf_ray.models.weight_files import is_buffer

SCORE_WEIGHT = f"{SCORE_HEAD}.weight"
AutoClass = type[AutoModelForCausalLM] | type[AutoModelForSequenceClassification]
# what transformers raises for a config that its class does not accept
_REFUSALS = (ValueError, TypeError, KeyError, RuntimeError, OSError, ImportError, StrictDataclassError)


def from_directory(auto_class: AutoClass, directory: ModelDirectory, *, dtype: torch.dtype) -> PreTrainedModel:
    """The model with its weights. Raises ModelError unless its class and the directory hold the same tensors."""
    config = _config(auto_class, directory)
    with quiet_transformers():
        try:
            model, report = auto_class.from_pretrained(
                directory.path,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        except _REFUSALS as error:
            raise _does_not_load(directory, error) from error
    _require_same(directory, missing=set(report["missing_keys"]), unread=set(report["unexpected_keys"]))
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                f"{directory.path}: {name} holds values that are not finite (NaN or infinite); "
                "give weights from before training went wrong, or copy the files again"
            )
    return model


def require_fit(auto_class: AutoClass, directory: ModelDirectory) -> None:
    """What from_directory refuses, as far as config.json and the tensors' names and shapes tell; no weight is read.

    Names and shapes count where a family stores its weights as its class holds them; others are checked at the load.
    Raises ModelError.
    """
    config = _config(auto_class, directory)
    with quiet_transformers(), torch.device("meta"):
        try:
            model = auto_class.from_config(config, trust_remote_code=False)
        except _REFUSALS as error:
            raise _does_not_load(directory, error) from error
    if get_model_conversion_mapping(model, add_legacy=False):
        return
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    stored = {_name_in(own, name, prefix=model.base_model_prefix): name for name in directory.tensors}
    unused = [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    _require_same(
        directory,
        missing={name for name, _ in model.named_parameters()} - set(stored),
        unread={
            name for inside, name in stored.items() if inside not in own and not any(p.search(name) for p in unused)
        },
    )
    for inside, name in stored.items():
        found = directory.tensors[name].shape
        if inside in own and inside != SCORE_WEIGHT and own[inside] != found:
            raise ModelError(
                f"{directory.path}: {name} has shape {list(found)} and its {directory.architecture} by {CONFIG_FILE} "
                f"{list(own[inside])}; give the config and the weights of one model"
            )


def _config(auto_class: AutoClass, directory: ModelDirectory) -> PreTrainedConfig:
    """As stored, without dropout and with one output for a scalar model."""
    family = directory.model_type
    if family not in CONFIG_MAPPING:
        raise ModelError(
            f"{directory.path / CONFIG_FILE}: transformers knows no model_type {family!r}, and code that comes with a "
            "model (auto_map) is never run; accepted: decoder-only families such as llama, qwen2, gpt2 and gpt_neox"
        )
    with quiet_transformers():
        try:
            config = AutoConfig.from_pretrained(directory.path, local_files_only=True, trust_remote_code=False)
        except _REFUSALS as error:
            raise _does_not_load(directory, error) from error
    if auto_class is AutoModelForSequenceClassification:
        config.num_labels = 1
    return _without_dropout(config)


def _without_dropout(config: PreTrainedConfig) -> PreTrainedConfig:
    """Every rate is 0 in every role and stage: log-probs must be reproducible (Huang et al. 2024, detail 7)."""
    for key, value in config.to_dict().items():
        if ("dropout" in key or key.endswith("pdrop")) and isinstance(value, float):
            setattr(config, key, 0.0)
    return config


def _require_same(directory: ModelDirectory, *, missing: set[str], unread: set[str]) -> None:
    """A new score head is filled by its caller; heads of other uses may lie in the directory."""
    heads = {f"{head}.{part}" for head in directory.head_candidates for part in ("weight", "bias")}
    lacking = sorted(missing - {SCORE_WEIGHT})
    if lacking:
        raise ModelError(
            f"{directory.path} lacks {len(lacking)} tensors of its {directory.architecture}, first {lacking[0]}"
        )
    left = sorted(name for name in unread - heads - set(LM_HEADS) if not is_buffer(name))
    if left:
        raise ModelError(
            f"{directory.path} holds {len(left)} tensors that its {directory.architecture} by {CONFIG_FILE} has no use "
            f"for, first {left[0]}; give the config and the weights of one model, or delete them"
        )


def _name_in(own: dict[str, tuple[int, ...]], name: str, *, prefix: str) -> str:
    """The name that the class has for a stored tensor: the body is stored with or without its prefix."""
    candidates = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}."))
    return next((candidate for candidate in candidates if candidate in own), name)


def _does_not_load(directory: ModelDirectory, error: Exception) -> ModelError:
    reason = " ".join(str(error).split())
    return ModelError(f"{directory.path} ({directory.architecture}) does not load: {reason}")
