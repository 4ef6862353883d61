"""Loading as the program does it, on a machine without GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rlhf_ray.config.host import Host
from rlhf_ray.config.load import Loaded, Start, load
from rlhf_ray.errors import ConfigError

Load = Callable[..., Loaded]
Refusal = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(folder=tmp_path, run_name="NAME", job=None, host=Host(num_cpus=2, num_gpus=0, has_vllm=True))


@pytest.fixture
def loaded(start: Start) -> Load:
    return lambda *words: load(words, start)


@pytest.fixture
def refusal(start: Start) -> Refusal:
    """The message of a command line that must not load."""

    def message(*words: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(words, start)
        return str(caught.value)

    return message
