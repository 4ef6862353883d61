"""What is in a Hugging Face model directory, read without torch or transformers: for checks before anything loads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ModelError
from rlhf_ray.models.json_object import read_json_object
from rlhf_ray.models.safetensors_header import StoredTensor
from rlhf_ray.models.vocabulary import num_token_ids
from rlhf_ray.models.weight_files import read_tensors, same_bytes

CONFIG_FILE = "config.json"
LM_HEADS = ("lm_head.weight", "embed_out.weight")  # the second is GPT-NeoX
INPUT_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight")
SCORE_HEAD = "score"  # the name transformers gives the head of a decoder for sequence classification
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model")
SCORE_MEAN_KEY = "rlhf_ray_score_mean"
SCORE_STD_KEY = "rlhf_ray_score_std"
MAX_HEAD_OUTPUTS = 16
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|blocks|h)\.(\d+)\.")
GENERATION_FILE = "generation_config.json"
HEADS_KEYS = ("num_attention_heads", "n_head", "n_heads")
LAYERS_KEYS = ("num_hidden_layers", "n_layer", "n_layers")
# rows of the embedding that are wider or narrower than the layers: OPT, and families after ELECTRA
EMBEDDING_WIDTH_KEYS = ("word_embed_proj_dim", "embedding_size")
EXTRA_LAYERS_KEY = "num_nextn_predict_layers"  # stored after the others to predict several tokens at once
# what it holds beside sampling: tokens, and what transformers writes into every such file
NOT_SAMPLING = frozenset(
    {
        "eos_token_id",
        "bos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "transformers_version",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "_from_model_config",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDirectory:
    """A model directory that is complete: its config parses and all weight bytes it promises are there."""

    path: Path
    architecture: str
    model_type: str | None  # the family, by which transformers finds the model's class
    vocab_size: int  # embedding rows
    hidden_size: int
    embedding_width: int
    num_layers: int | None  # None: the config does not tell
    num_extra_layers: int  # that may be stored beyond them
    tied: bool  # the output head is the input embedding
    context_length: int | None  # None: the config names no limit
    num_token_ids: int | None  # ids the tokenizer knows; None: its files do not tell
    head_size: int | None  # width of an attention head; None: the config does not tell
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    pad_token_id: int | None
    sampling_defaults: Mapping[str, Any]  # what generation_config.json would do to sampling; never applied
    score_mean: float | None  # of a reward model's raw scores; None: not stored
    score_std: float | None
    tensors: Mapping[str, StoredTensor]

    @property
    def lm_head(self) -> str | None:
        """Name of the stored output head, if one is stored."""
        return next((name for name in LM_HEADS if name in self.tensors), None)

    @property
    def ids_to_sample(self) -> int | None:
        """Ids from here on belong to no token and get probability 0; None: every embedding row is a token's."""
        known = self.num_token_ids
        return known if known is not None and known < self.vocab_size else None

    @property
    def head_candidates(self) -> tuple[str, ...]:
        """Names of matrices outside the layers that turn a hidden state into a few numbers."""
        return tuple(
            name.removesuffix(".weight")
            for name, tensor in sorted(self.tensors.items())
            if name.endswith(".weight")
            and not any(part.isdigit() for part in name.split("."))
            and len(tensor.shape) == 2
            and tensor.shape[1] == self.hidden_size
            and tensor.shape[0] <= MAX_HEAD_OUTPUTS
        )


def inspect_model(path: Path) -> ModelDirectory:
    """Read config.json and the headers of all weight files.

    Raises ModelError when the path is not a model directory, a file is missing, cut or not safetensors.
    """
    if not path.is_dir():
        found = "is a file" if path.exists() else "does not exist"
        raise ModelError(f"{path} {found}; give a local Hugging Face model directory (config.json + model.safetensors)")
    config = _read_config(path)
    tensors = read_tensors(path)
    hidden_size = _whole_number(config, WIDTH_KEYS, path=path)
    head_stored = any(name in tensors for name in LM_HEADS)
    generation = _read_generation_config(path)
    return ModelDirectory(
        path=path,
        architecture=_architecture(config, path=path),
        model_type=_model_type(config, path=path),
        vocab_size=_whole_number(config, ("vocab_size",), path=path),
        hidden_size=hidden_size,
        embedding_width=_optional_number(config, EMBEDDING_WIDTH_KEYS, path=path) or hidden_size,
        num_layers=_optional_number(config, LAYERS_KEYS, path=path),
        num_extra_layers=_optional_number(config, (EXTRA_LAYERS_KEY,), path=path) or 0,
        # older files leave the flag out; then the tensors tell
        tied=bool(config.get("tie_word_embeddings", not head_stored)),
        context_length=_optional_number(config, CONTEXT_KEYS, path=path),
        num_token_ids=num_token_ids(path),
        head_size=_head_size(config, hidden_size=hidden_size, path=path),
        eos_token_ids=_eos_token_ids(path, config, generation),
        bos_token_id=config.get("bos_token_id"),
        pad_token_id=config.get("pad_token_id"),
        sampling_defaults={key: value for key, value in sorted(generation.items()) if key not in NOT_SAMPLING},
        score_mean=_score_number(config, SCORE_MEAN_KEY, path=path),
        score_std=_score_number(config, SCORE_STD_KEY, path=path),
        tensors=tensors,
    )


def require_language_model(directory: ModelDirectory) -> None:
    """Refuse what cannot be trained as a policy. Raises ModelError."""
    path, head = directory.path, directory.lm_head
    _require_sizes(directory)
    if _is_classifier(directory):
        raise ModelError(f"{path} is a {directory.architecture}, not a language model; give a *ForCausalLM directory")
    if not directory.tied and head is None:
        raise ModelError(
            f"{path}: tie_word_embeddings is false in {CONFIG_FILE} but the weights hold no lm_head.weight; "
            "save the model with its head, or set tie_word_embeddings to true if the head is the embedding"
        )
    if directory.tied and head is not None:
        embedding = _input_embedding(directory)
        if not same_bytes(directory.tensors[embedding], directory.tensors[head]):
            raise ModelError(
                f"{path}: tie_word_embeddings is true in {CONFIG_FILE} but {head} differs from {embedding}; "
                "set it to false to keep the stored head, or delete that tensor"
            )


def require_reward_model(directory: ModelDirectory, *, head: str) -> None:
    """Refuse what cannot give one score: no head, or more than one output. Raises ModelError."""
    path, weight = directory.path, directory.tensors.get(f"{head}.weight")
    _require_sizes(directory)
    if weight is None:
        candidates = ", ".join(directory.head_candidates) or "none"
        kind = "is a language model without a score head" if not _is_classifier(directory) else "holds no such tensor"
        raise ModelError(
            f"{path} {kind} ({head}.weight was looked for; other heads in it: {candidates}); "
            "give a reward model: a *ForSequenceClassification directory with one output, or name its head"
        )
    if weight.shape != (1, directory.hidden_size):
        raise ModelError(
            f"{path}: {head}.weight has shape {list(weight.shape)}; a reward model has one output, "
            f"shape [1, {directory.hidden_size}]"
        )
    if f"{head}.bias" in directory.tensors:
        raise ModelError(f"{path}: {head}.bias is not read; fold it into rlhf_ray_score_mean in {CONFIG_FILE}")


def _require_sizes(directory: ModelDirectory) -> None:
    """The config and the tensors are of one model."""
    if directory.model_type is None:
        raise ModelError(
            f"{directory.path / CONFIG_FILE} has no model_type, so its family is unknown; add the one of "
            f'{directory.architecture}, such as "model_type": "llama"'
        )
    _require_vocabulary(directory)
    _require_layers(directory)


def _require_layers(directory: ModelDirectory) -> None:
    """As many as the config names: transformers fills missing ones with noise and leaves others out."""
    path, named = directory.path, directory.num_layers
    stored = {int(found.group(1)) for name in directory.tensors if (found := _LAYER.search(name))}
    if named is None or not stored:
        return
    absent = sorted(set(range(named)) - stored)
    if absent or max(stored) >= named + directory.num_extra_layers:
        raise ModelError(
            f"{path}: {CONFIG_FILE} names {named} layers ({' or '.join(LAYERS_KEYS)}) and the weights hold "
            f"{len(stored)}, numbered {min(stored)} to {max(stored)}; give the config and the weights of one model"
        )


def _require_vocabulary(directory: ModelDirectory) -> None:
    """Every id that can occur has a row in the embedding."""
    path, rows, known = directory.path, directory.vocab_size, directory.num_token_ids
    stored = next((tensor for name, tensor in directory.tensors.items() if name.endswith(INPUT_EMBEDDINGS)), None)
    if stored is not None and stored.shape[0] != rows:
        raise ModelError(
            f"{path}: vocab_size is {rows} in {CONFIG_FILE} but the embedding has {stored.shape[0]} rows; "
            "set vocab_size to the number of rows"
        )
    if stored is not None and stored.shape[1:] != (directory.embedding_width,):
        raise ModelError(
            f"{path}: {' or '.join(WIDTH_KEYS)} is {directory.hidden_size} in {CONFIG_FILE} but the embedding has "
            f"shape {list(stored.shape)}; give the config and the weights of one model"
        )
    if known is not None and known > rows:
        raise ModelError(
            f"{path}: the tokenizer knows {known} ids and the embedding has {rows} rows, so some texts have no "
            "embedding; give the tokenizer that the model was trained with, or a model with more rows"
        )
    outside = [token for token in directory.eos_token_ids if not 0 <= token < rows]
    if outside:
        raise ModelError(f"{path}: eos_token_id {outside[0]} is no row of the embedding, which has {rows}")


def _is_classifier(directory: ModelDirectory) -> bool:
    return directory.architecture.endswith("ForSequenceClassification")


def _input_embedding(directory: ModelDirectory) -> str:
    for name in directory.tensors:
        if name.endswith(INPUT_EMBEDDINGS):
            return name
    raise ModelError(f"{directory.path} holds none of the embeddings {', '.join(INPUT_EMBEDDINGS)}")


def _read_config(path: Path) -> dict[str, Any]:
    file = path / CONFIG_FILE
    if file.is_file():
        config = read_json_object(file)
        if "quantization_config" in config:
            raise ModelError(f"{file} names quantized weights; training needs plain ones: dequantize and save again")
        return config
    if (path / "adapter_config.json").is_file():
        raise ModelError(f"{path} is an adapter without its model; merge it into the base model and save that")
    raise ModelError(f"{path} holds no {CONFIG_FILE}; give a Hugging Face model directory")


def _whole_number(config: Mapping[str, Any], keys: tuple[str, ...], *, path: Path) -> int:
    number = _optional_number(config, keys, path=path)
    if number is None:
        raise ModelError(
            f"{path / CONFIG_FILE} has no whole number {' or '.join(keys)}; is it a decoder-only text model?"
        )
    return number


def _optional_number(config: Mapping[str, Any], keys: tuple[str, ...], *, path: Path) -> int | None:
    """The first of these settings that is there; null counts as not there."""
    key = next((key for key in keys if config.get(key) is not None), None)
    if key is None:
        return None
    number = config[key]
    if isinstance(number, bool) or not isinstance(number, int) or number < (0 if key == EXTRA_LAYERS_KEY else 1):
        raise ModelError(f"{path / CONFIG_FILE}: {key} is {number!r}; accepted: a whole number above 0")
    return number


def _architecture(config: Mapping[str, Any], *, path: Path) -> str:
    names = config.get("architectures") or ["unknown"]
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise ModelError(f"{path / CONFIG_FILE}: architectures is {names!r}; accepted: a list of names of classes")
    return names[0]


def _model_type(config: Mapping[str, Any], *, path: Path) -> str | None:
    family = config.get("model_type")
    if family is not None and not isinstance(family, str):
        raise ModelError(f"{path / CONFIG_FILE}: model_type is {family!r}; accepted: the name of a family")
    return family or None


def _score_number(config: Mapping[str, Any], key: str, *, path: Path) -> float | None:
    """The mean or the std of raw scores: a std below 0 would turn every judgement round."""
    value = config.get(key)
    if value is None:
        return None
    is_std = key == SCORE_STD_KEY
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or (is_std and value <= 0)
    ):
        raise ModelError(
            f"{path / CONFIG_FILE}: {key} is {value!r}; accepted: a finite number{' above 0' if is_std else ''}"
        )
    return float(value)


def _head_size(config: Mapping[str, Any], *, hidden_size: int, path: Path) -> int | None:
    """Width of an attention head."""
    size = _optional_number(config, ("head_dim",), path=path)
    heads = _optional_number(config, HEADS_KEYS, path=path)
    if size is not None or heads is None:
        return size
    if hidden_size % heads:
        raise ModelError(
            f"{path / CONFIG_FILE}: {heads} attention heads ({' or '.join(HEADS_KEYS)}) do not share a width of "
            f"{hidden_size} ({' or '.join(WIDTH_KEYS)}) evenly; accepted: a divisor of it, or head_dim"
        )
    return hidden_size // heads


def _read_generation_config(path: Path) -> dict[str, Any]:
    file = path / GENERATION_FILE
    return read_json_object(file) if file.is_file() else {}


def _eos_token_ids(path: Path, config: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[int, ...]:
    """The generation config's list where there is one: chat models end turns with ids that config.json leaves out."""
    ids = generation.get("eos_token_id")
    file = GENERATION_FILE if ids is not None else CONFIG_FILE
    ids = config.get("eos_token_id") if ids is None else ids
    if ids is None:
        return ()
    ids = ids if isinstance(ids, list) else [ids]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise ModelError(f"{path / file}: eos_token_id is {ids}; accepted: a whole number or a list of them")
    return tuple(ids)
