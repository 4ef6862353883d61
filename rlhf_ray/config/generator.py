"""The engines that write answers."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class GeneratorConfig:
    """conf/generator."""

    backend: str = setting("vllm", "engine", choices=("vllm", "hf"))
    num_replicas: int = setting(1, "generators side by side", low=1)
    dtype: str = setting("float32", "number type of the engine", choices=("float32", "bfloat16", "float16"))
    tensor_parallel_size: int = setting(1, "GPUs per generator", low=1)
    kv_cache_gib: float = setting(0.5, "memory of the key-value cache on CPU", unit="GiB", above=0)
    gpu_memory_utilization: float = setting(0.6, "share of GPU memory vLLM may take", above=0, high=1)
    enforce_eager: bool = setting(True, "skip compilation (faster start, slower decoding on GPU)")
    max_num_seqs: int = setting(128, "answers decoded side by side", low=1)
    bucket_mib: int = setting(256, "weights travel in pieces of this size", unit="MiB", low=1)
    transport: str = setting("object_store", "how weights travel", choices=("object_store", "nccl", "ipc"))
