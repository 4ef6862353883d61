"""A small random Llama, written as an ordinary model directory: the model that the default job trains from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyLlama:
    """Sizes of the new model."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    mlp_size: int
    context_length: int
    tied: bool
    eos_token_id: int
    pad_token_id: int | None


def build_tiny_llama(folder: Path, *, sizes: TinyLlama, seed: int) -> None:
    """Random weights drawn from `seed` alone; the caller adds the tokenizer's files."""
    config = LlamaConfig(
        vocab_size=sizes.vocab_size,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.num_layers,
        num_attention_heads=sizes.num_heads,
        num_key_value_heads=sizes.num_heads,
        intermediate_size=sizes.mlp_size,
        max_position_embeddings=sizes.context_length,
        tie_word_embeddings=sizes.tied,
        bos_token_id=None,
        eos_token_id=sizes.eos_token_id,
        pad_token_id=sizes.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=sizes.eos_token_id, pad_token_id=sizes.pad_token_id)
    model.save_pretrained(folder)
