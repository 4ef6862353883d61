"""What a generator backend is told, free of heavy imports. Defaults live in config/ only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """Settings of the vLLM backend."""

    dtype: str  # float32, bfloat16, float16: what the weights must be sent in
    max_model_len: int  # tokens, prompt and answer together
    max_num_seqs: int  # answers decoded side by side
    kv_cache_gib: float | None  # memory for cached keys and values; None on GPUs: gpu_memory_utilization decides
    gpu_memory_utilization: float  # share of a GPU's memory that the engine may take
    enforce_eager: bool  # True: no compilation; faster start
    tensor_parallel_size: int
    weight_transfer: str  # object_store, nccl or ipc
    seed: int  # of the dummy weights and of nothing else: each answer has its own seed


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSettings:
    """Settings of the transformers backend."""

    dtype: str
    device: str  # cpu, cuda, cuda:1
    max_model_len: int  # tokens, prompt and answer together
    max_rows: int  # answers decoded side by side
