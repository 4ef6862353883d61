"""vLLM's own transports, between a learner's GPU memory and a generator in another process."""

from __future__ import annotations

import pkgutil
import socket
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlhf_ray.generation.seeds import derive_seeds
from rlhf_ray.generation.settings import VllmSettings
from rlhf_ray.types import Prompts, Ragged, Sampling

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
VOCAB = 64
SAMPLING = Sampling(temperature=0.7, max_new_tokens=16, eos_token_ids=(2,), num_samples=1)

BaseManager.register("Object", create_method=False)
BaseManager.register("resolve", pkgutil.resolve_name, exposed=("__call__",), method_to_typeid={"__call__": "Object"})


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w2", unk_token="w0").save_pretrained(tmp_path)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=128,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=128,
            initializer_range=0.1,
            tie_word_embeddings=True,
        )
    ).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture
def start_generator(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    managers: list[BaseManager] = []

    def start(*, weight_transfer: str, gpu: int):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", str(gpu))
        manager = BaseManager(ctx=get_context("spawn"))
        manager.start()
        managers.append(manager)
        settings = VllmSettings(
            dtype="float32",
            max_model_len=64,
            max_num_seqs=8,
            kv_cache_gib=0.25,
            gpu_memory_utilization=0.2,
            enforce_eager=True,
            tensor_parallel_size=1,
            weight_transfer=weight_transfer,
            seed=0,
        )
        return manager.resolve("rlhf_ray.generation.vllm_generator:VllmGenerator")(model_folder, settings=settings)

    yield start
    for manager in managers:
        manager.shutdown()


def assert_follows_the_learner(channel, generator, model: LlamaForCausalLM) -> None:
    """Two syncs with a step between them: the generator's log-probs are the learner's both times."""
    prompts = Prompts(ids=("a", "b"), texts=("", ""), tokens=Ragged.from_rows([[7, 8, 9], [10]], np.int32))
    for version in (1, 2):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        [receipt] = channel.send(version=version)
        assert receipt.version == version
        seeds = derive_seeds(prompts.ids, seed=0, step=version, num_samples=1)
        answers = generator.generate(prompts, sampling=SAMPLING, seeds=seeds, version=version)
        assert answers.versions.tolist() == [[version, version]] * 2
        for prompt, answer, logprobs in zip(
            prompts.tokens.rows(), answers.tokens.rows(), answers.logprobs.rows(), strict=True
        ):
            tokens = torch.tensor(np.concatenate([prompt, answer])[None].astype(np.int64), device=model.device)
            with torch.no_grad():
                expected = torch.log_softmax(model(tokens).logits[0] / 0.7, dim=-1)[len(prompt) - 1 : -1]
            picked = expected.gather(1, tokens[0, len(prompt) :, None])[:, 0].cpu().numpy()
            np.testing.assert_allclose(logprobs, picked, atol=1e-3, rtol=0)


def test_ipc_brings_weights_to_a_generator_on_the_same_gpu(model_folder, start_generator):
    from rlhf_ray.weight_sync.ipc import ipc_channel

    generator = start_generator(weight_transfer="ipc", gpu=0)
    model = LlamaForCausalLM.from_pretrained(model_folder).cuda(0).eval()
    channel = ipc_channel(lambda: iter(model.state_dict().items()), [generator])
    assert_follows_the_learner(channel, generator, model)
    channel.close()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL needs two GPUs: it refuses two ranks on one")
def test_nccl_brings_weights_to_a_generator_on_another_gpu(model_folder, start_generator):
    from rlhf_ray.weight_sync.nccl import nccl_channel

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    generator = start_generator(weight_transfer="nccl", gpu=1)
    model = LlamaForCausalLM.from_pretrained(model_folder).cuda(0).eval()
    channel = nccl_channel(
        lambda: iter(model.state_dict().items()), [generator], address="127.0.0.1", ports=[port], ranks_per_receiver=1
    )
    assert_follows_the_learner(channel, generator, model)
    channel.close()
