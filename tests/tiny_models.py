"""Model directories small enough for exact tests: rotary positions (Llama) and absolute ones (GPT-2, with dropout)."""

from pathlib import Path

VOCAB, WIDTH, EOS = 64, 32, 2


def write_llama(
    folder: Path, *, tied: bool, seed: int = 0, width: int = WIDTH, context_length: int = 64, pad: int | None = None
) -> Path:
    from rlhf_ray.models.tiny import TinyLlama, build_tiny_llama

    sizes = TinyLlama(
        vocab_size=VOCAB,
        hidden_size=width,
        num_layers=2,
        num_heads=4,
        mlp_size=64,
        context_length=context_length,
        tied=tied,
        eos_token_id=EOS,
        pad_token_id=pad,
    )
    build_tiny_llama(folder, sizes=sizes, seed=seed)
    return folder


def write_gpt2(folder: Path) -> Path:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=VOCAB, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64, eos_token_id=EOS, bos_token_id=EOS
    )
    assert config.resid_pdrop == 0.1, "dropout must be there to be turned off"
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def write_reward_model(folder: Path, *, language_model: Path, mean: float, std: float) -> Path:
    """A seeded random head on the language model."""
    import torch

    from rlhf_ray.models.load import HeadStart, load_scalar_model
    from rlhf_ray.models.save import save_scalar_model

    model = load_scalar_model(language_model, start=HeadStart.RANDOM, head="score", seed=3, dtype=torch.float32)
    model.normalize(mean=mean, std=std)
    save_scalar_model(model, folder, tokenizer_source=language_model, dtype=torch.float32)
    return folder
