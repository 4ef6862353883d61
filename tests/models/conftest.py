"""Two small model directories: rotary positions (Llama) and absolute ones (GPT-2, with dropout in its config)."""

from pathlib import Path

import pytest
import torch

VOCAB, WIDTH, EOS = 64, 32, 2


def write_llama(folder: Path, *, tied: bool, pad: int | None = None, seed: int = 0) -> Path:
    from rlhf_ray.models.tiny import TinyLlama, build_tiny_llama

    sizes = TinyLlama(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_layers=2,
        num_heads=4,
        mlp_size=64,
        context_length=64,
        tied=tied,
        eos_token_id=EOS,
        pad_token_id=pad,
    )
    build_tiny_llama(folder, sizes=sizes, seed=seed)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama") / "model", tied=False)


@pytest.fixture(scope="session")
def tied_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("tied_llama") / "model", tied=True)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("gpt2") / "model"
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=VOCAB, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64, eos_token_id=EOS, bos_token_id=EOS
    )
    assert config.resid_pdrop == 0.1
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reward_model(tmp_path_factory: pytest.TempPathFactory, llama: Path) -> Path:
    from rlhf_ray.models.load import HeadStart, load_scalar_model
    from rlhf_ray.models.save import save_scalar_model

    folder = tmp_path_factory.mktemp("reward_model") / "model"
    model = load_scalar_model(llama, start=HeadStart.RANDOM, head="score", seed=3, dtype=torch.float32)
    model.normalize(mean=0.5, std=2.0)
    save_scalar_model(model, folder, tokenizer_source=llama)
    return folder
