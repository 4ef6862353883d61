"""Two small policies (rotary and absolute positions), a reward model, and settings every learner test shares."""

from pathlib import Path

import pytest
import torch

VOCAB, WIDTH, EOS = 64, 32, 2


def _llama(folder: Path, *, tied: bool) -> Path:
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
        pad_token_id=None,
    )
    build_tiny_llama(folder, sizes=sizes, seed=0)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _llama(tmp_path_factory.mktemp("llama") / "model", tied=False)


@pytest.fixture(scope="session")
def tied_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _llama(tmp_path_factory.mktemp("tied_llama") / "model", tied=True)


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
