from pathlib import Path

import pytest
from tiny_models import write_gpt2, write_llama, write_reward_model


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama") / "model", tied=False)


@pytest.fixture(scope="session")
def tied_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("tied_llama") / "model", tied=True)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gpt2(tmp_path_factory.mktemp("gpt2") / "model")


@pytest.fixture(scope="session")
def reward_model(tmp_path_factory: pytest.TempPathFactory, llama: Path) -> Path:
    folder = tmp_path_factory.mktemp("reward_model") / "model"
    return write_reward_model(folder, language_model=llama, mean=0.5, std=2.0)
