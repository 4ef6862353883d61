"""The model that the policy starts from: made where none is given, and what its directory says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_ray.data.render import require_ending
from rlhf_ray.data.tokenizer import load_tokenizer, train_tokenizer
from rlhf_ray.files.atomic import replace_folder
from rlhf_ray.models.directory import CONFIG_FILE, inspect_model
from rlhf_ray.models.notes import model_notes
from rlhf_ray.models.smollm2 import write_smollm2
from rlhf_ray.models.tiny import TinyLlama, build_tiny_llama

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def make_smollm2(model_dir: Path) -> None:
    """SmolLM2 as a model directory, unless it is there."""
    if not (model_dir / CONFIG_FILE).is_file():
        unfinished = model_dir.with_name(f".{model_dir.name}")
        write_smollm2(unfinished)
        replace_folder(unfinished, model_dir)


def make_tiny(model_dir: Path, new_model: TinyLlama | None, texts: Iterable[str], *, seed: int) -> None:
    """A tokenizer made from the texts and a random model; nothing where none is wanted or one is there."""
    if new_model is None or (model_dir / CONFIG_FILE).is_file():
        return
    tokenizer = train_tokenizer(texts, vocab_size=new_model.vocab_size)
    sized = dataclasses.replace(
        new_model,
        vocab_size=len(tokenizer),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    build_tiny_llama(model_dir, sizes=sized, seed=seed)
    tokenizer.save_pretrained(model_dir)


def open_tokenizer(model_dir: Path, *, chat: bool) -> tuple[PreTrainedTokenizerBase, tuple[str, ...]]:
    """The policy's tokenizer, and what to know of its model. DataError as in require_ending."""
    tokenizer, directory = load_tokenizer(model_dir), inspect_model(model_dir)
    require_ending(tokenizer, directory.eos_token_ids, chat=chat)
    return tokenizer, tuple(model_notes(directory))
