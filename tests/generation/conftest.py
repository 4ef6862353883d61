"""Both backends on tiny models, and the learner's side of them: a plain transformers model."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlhf_ray.generation.base import Generator
from rlhf_ray.generation.hf_generator import HfGenerator
from rlhf_ray.generation.settings import HfSettings, VllmSettings
from rlhf_ray.types import Prompts, Ragged
from rlhf_ray.weight_sync.buckets import WeightSender
from rlhf_ray.weight_sync.channel import BucketChannel

MAX_MODEL_LEN = 192  # room for a whole block of vLLM's prefix cache on CPUs (128)
HF = HfSettings(dtype="float32", device="cpu", max_model_len=MAX_MODEL_LEN, max_rows=4)
VLLM = VllmSettings(
    dtype="float32",
    max_model_len=MAX_MODEL_LEN,
    max_num_seqs=8,
    kv_cache_gib=0.05,
    gpu_memory_utilization=0.5,
    enforce_eager=True,
    tensor_parallel_size=1,
    weight_transfer="object_store",
    seed=0,
)
VOCABULARY = ("<pad>", "<s>", "</s>", "<unk>", "stone", "<end>", *(f"w{i}" for i in range(6, 61)))


@dataclass(frozen=True)
class Bench:
    """A generator that holds version 1 of `model`, and what tests need to talk to it."""

    generator: Generator
    model: LlamaForCausalLM
    sender: WeightSender

    def sync(self, version: int) -> None:
        """Send the model as it is now."""
        BucketChannel(self.sender, [self.generator]).send(version=version)


def save_tiny_model(folder: Path, *, tied: bool) -> Path:
    """A Llama whose distributions are far from flat, with a vocabulary no kernel likes (61)."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=MAX_MODEL_LEN,
        tie_word_embeddings=tied,
        initializer_range=0.15,
        eos_token_id=4,  # not what the run asks for: must be ignored
        pad_token_id=0,
        bos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    defaults = {"eos_token_id": [2, 5], "top_p": 0.3, "top_k": 2, "repetition_penalty": 1.8, "temperature": 0.5}
    (folder / "generation_config.json").write_text(json.dumps(defaults | {"do_sample": False}))
    return folder


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model with tied embeddings, one without, and a second name for the latter."""
    tied = save_tiny_model(tmp_path_factory.mktemp("tied"), tied=True)
    untied = save_tiny_model(tmp_path_factory.mktemp("untied"), tied=False)
    return {"tied": tied, "untied": untied, "untied again": untied}


# vLLM changes torch for its whole process, so it gets one of its own. Classes are found by name over there: this
# process need not import vLLM.
BaseManager.register("Object", create_method=False)
BaseManager.register("resolve", pkgutil.resolve_name, exposed=("__call__",), method_to_typeid={"__call__": "Object"})


@pytest.fixture(scope="session")
def vllm_settings() -> VllmSettings:
    """A small engine."""
    return VLLM


@pytest.fixture(scope="module")
def in_own_process() -> Iterator[Callable[..., object]]:
    """(dotted:name, arguments) -> proxy of the object made from them in a fresh process."""
    managers: list[BaseManager] = []

    def make(name: str, *args: object, **kwargs: object) -> object:
        manager = BaseManager(ctx=get_context("spawn"))
        manager.start()
        managers.append(manager)
        return manager.resolve(name)(*args, **kwargs)

    yield make
    for manager in managers:
        manager.shutdown()


@pytest.fixture(scope="module")
def generator_of(model_folders, in_own_process) -> Callable[[str, str], Generator]:
    """(backend, model) -> a generator, started once."""
    started: dict[tuple[str, str], Generator] = {}

    def get(backend: str, model: str) -> Generator:
        if (backend, model) not in started:
            folder = model_folders[model]
            started[backend, model] = (
                HfGenerator(folder, settings=HF)
                if backend == "hf"
                else in_own_process("rlhf_ray.generation.vllm_generator:VllmGenerator", folder, settings=VLLM)
            )
        return started[backend, model]

    return get


@pytest.fixture
def bench_of(model_folders, generator_of) -> Callable[[str, str], Bench]:
    """(backend, model) -> a bench; the learner's model is loaded anew for every test."""

    def make(backend: str, model: str) -> Bench:
        reference = LlamaForCausalLM.from_pretrained(model_folders[model]).eval()
        sender = WeightSender(lambda: iter(reference.state_dict().items()), bucket_bytes=8192)
        bench = Bench(generator_of(backend, model), reference, sender)
        bench.sync(version=1)
        return bench

    return make


@pytest.fixture(params=["hf", "vllm"])
def bench(request, bench_of) -> Bench:
    """Each backend on the untied model."""
    return bench_of(request.param, "untied")


@pytest.fixture
def prompts() -> Prompts:
    """Four prompts of different lengths."""
    rows = [[7, 8, 9], [10], [11, 12, 13, 14, 15], [20, 21]]
    texts = tuple(" ".join(VOCABULARY[token] for token in row) for row in rows)
    return Prompts(ids=("a", "b", "c", "d"), texts=texts, tokens=Ragged.from_rows(rows, np.int32))
