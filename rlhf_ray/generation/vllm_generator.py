"""Answers from vLLM, its engine in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm import LLM, CompletionOutput, SamplingParams
from vllm.inputs import TokensPrompt

from rlhf_ray.data.tokenizer import load_tokenizer
from rlhf_ray.errors import SyncError, WorkerError
from rlhf_ray.generation.batch import Answer, collect, spread
from rlhf_ray.generation.expected import expected_weights, ids_to_sample
from rlhf_ray.generation.known_ids import NUM_IDS, KnownIdsOnly
from rlhf_ray.generation.settings import VllmSettings
from rlhf_ray.types import Bucket, Completions, FinishReason, Prompts, Sampling, SyncReceipt, WeightManifest
from rlhf_ray.weight_sync import object_store_engine
from rlhf_ray.weight_sync.receiver import SyncReceiver

GIB = 1 << 30


def start_engine(model_path: Path, *, settings: VllmSettings) -> LLM:
    """A vLLM engine in this process, with dummy weights, ready to be sent real ones.

    Sets environment variables that vLLM reads when an engine starts. vLLM replaces `torch.set_num_threads` by a no-op
    for the whole process: give each engine a process of its own.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    # it warns at every healthy start and sync (layers without weights); what matters is checked and raised
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if settings.enforce_eager:
        # vLLM's sampler compiles a helper even so, which takes 19 s on a machine that never did
        torch.compiler.set_stance("force_eager")
    object_store_engine.register()
    num_ids = ids_to_sample(model_path)
    kv_cache_bytes = None if settings.kv_cache_gib is None else int(settings.kv_cache_gib * GIB)
    return LLM(
        model=str(model_path),
        skip_tokenizer_init=True,
        load_format="dummy",
        hf_overrides={"tie_word_embeddings": False},  # see untied_config
        generation_config="vllm",  # keeps the model's own sampling defaults out
        logprobs_mode="processed_logprobs",  # of the sampled distribution: after the temperature
        logits_processors=[KnownIdsOnly] if num_ids is not None else None,
        additional_config={NUM_IDS: num_ids},
        weight_transfer_config={"backend": settings.weight_transfer},
        dtype=settings.dtype,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        kv_cache_memory_bytes=kv_cache_bytes,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        enforce_eager=settings.enforce_eager,
        tensor_parallel_size=settings.tensor_parallel_size,
        seed=settings.seed,
        trust_remote_code=False,
    )


class VllmGenerator:
    """Generator protocol over vLLM."""

    def __init__(self, model_path: Path, *, settings: VllmSettings) -> None:
        self._settings = settings
        self._tokenizer = load_tokenizer(model_path)
        self._sync = SyncReceiver(expected_weights(model_path, dtype=settings.dtype))
        self._llm = start_engine(model_path, settings=settings)
        self._update_open = False  # vLLM is between start_weight_update and finish_weight_update

    def generate(self, prompts: Prompts, *, sampling: Sampling, seeds: NDArray[np.uint64], version: int) -> Completions:
        """See Generator."""
        self._sync.require(version)
        spread_prompts = spread(prompts, sampling=sampling, seeds=seeds, max_model_len=self._settings.max_model_len)
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=row.tolist()) for row in spread_prompts.tokens.rows()],
            [sampling_params(sampling, seed=int(seed)) for seed in seeds],
            use_tqdm=False,
        )
        answers = [read_answer(output.outputs[0]) for output in outputs]
        return collect(spread_prompts, answers, tokenizer=self._tokenizer)

    def begin_sync(self, manifest: WeightManifest) -> None:
        """See Generator."""
        self._close_update()
        self._sync.begin(manifest)
        with self._loading():
            self._llm.start_weight_update()
            self._update_open = True

    def receive(self, bucket: Bucket) -> None:
        """See Generator."""
        with self._loading():
            self._load({"tensors": self._sync.accept(bucket)})

    def connect(self, init_info: Mapping[str, Any]) -> None:
        """Join a trainer's group (NCCL), or take its wire settings (IPC)."""
        self._llm.init_weight_transfer_engine({"init_info": dict(init_info)})

    def receive_on_device(self, update_info: Mapping[str, Any]) -> None:
        """Load tensors that a GPU transport brings; `update_info` is what vLLM's trainer engine says of them."""
        with self._loading():
            self._sync.accept_unhashed(update_info["names"])
            self._load(update_info)

    def finish_sync(self) -> SyncReceipt:
        """See Generator."""
        with self._loading():
            receipt = self._sync.finish()
            label = str(receipt.version)
            self._llm.finish_weight_update(weight_version=label)
            self._update_open = False
            if self._llm.get_weight_version() != label:
                raise SyncError(f"vLLM reports weights {self._llm.get_weight_version()!r} after a sync of {label!r}")
            if not self._llm.reset_prefix_cache():
                raise SyncError("vLLM kept its prefix cache, which holds keys of older weights: requests are running")
        return receipt

    def _load(self, update_info: Mapping[str, Any]) -> None:
        self._update_open = False  # vLLM closes the update itself when a load raises
        self._llm.update_weights({"update_info": dict(update_info)})
        self._update_open = True

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """Leave no update open and no half-loaded model usable when something inside fails."""
        try:
            with self._sync.guard():
                yield
        except BaseException:
            self._close_update()
            raise

    def _close_update(self) -> None:
        """End an update that will not be completed; without a version vLLM's label stays what it was."""
        if self._update_open:
            self._update_open = False
            with self._sync.guard():
                self._llm.finish_weight_update()


def sampling_params(sampling: Sampling, *, seed: int) -> SamplingParams:
    """One answer's parameters. The run's end tokens decide, not the model's; no filter touches the distribution."""
    return SamplingParams(
        n=1,
        temperature=sampling.temperature,
        top_p=1.0,
        top_k=0,
        max_tokens=sampling.max_new_tokens,
        stop_token_ids=list(sampling.eos_token_ids),
        ignore_eos=True,
        seed=seed,
        logprobs=0,  # of the sampled token only
        detokenize=False,
    )


def read_answer(output: CompletionOutput) -> Answer:
    """vLLM's answer as ours. WorkerError when it was aborted; SyncError when no weights are named for it."""
    if output.finish_reason not in tuple(FinishReason):
        raise WorkerError(f"vLLM ended an answer with {output.finish_reason!r}; expected stop or length")
    if not output.weight_versions:
        raise SyncError("vLLM does not say which weights produced an answer")
    versions = [int(span.version) for span in output.weight_versions]
    return Answer(
        token_ids=output.token_ids,
        logprobs=[entry[token].logprob for token, entry in zip(output.token_ids, output.logprobs, strict=True)],
        finish_reason=FinishReason(output.finish_reason),
        versions=(versions[0], versions[-1]),
    )
