"""From the configuration to what each worker is started with. The stages' settings: stage_settings.py."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.actors.data_worker import DataSettings
from rlhf_ray.actors.learner_worker import LearnerSettings
from rlhf_ray.actors.placement import Resources
from rlhf_ray.actors.ray_runtime import ClusterSettings
from rlhf_ray.actors.team import ProbeSettings
from rlhf_ray.config.derived import gold_scorer
from rlhf_ray.config.placement import RoleConfig
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.files import lengths_of
from rlhf_ray.data.rows import CorpusSizes
from rlhf_ray.generation.settings import HfSettings, VllmSettings
from rlhf_ray.learner.forward import TokenDistribution
from rlhf_ray.learner.torch_learner import TorchSettings
from rlhf_ray.models.tiny import TinyLlama
from rlhf_ray.types import Sampling

MIB = 1 << 20
PROBE_PROMPTS = 4
PROBE_TOKENS = 8


def data_settings(config: TrainConfig, run_dir: Path) -> DataSettings:
    """The data worker's."""
    return DataSettings(
        seed=config.seed,
        lengths=lengths_of(config),
        num_parts=config.generator.num_replicas,
        gold=gold_scorer(config),
        rollouts_dir=run_dir / "rollouts",
        keep_rollouts=config.tracking.keep_rollouts,
        threads=config.placement.data.threads,
    )


def corpus_sizes(config: TrainConfig) -> CorpusSizes:
    """How much the built-in grammar writes."""
    data = config.data
    return CorpusSizes(
        demonstrations=data.num_demonstrations,
        prompts=data.num_prompts,
        held_out_prompts=data.num_held_out,
        held_out_demonstrations=data.num_held_out,
    )


def new_model(config: TrainConfig) -> TinyLlama:
    """The small model that is trained from scratch; its token ids come from the tokenizer."""
    model = config.model
    return TinyLlama(
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        num_layers=model.num_layers,
        num_heads=model.num_heads,
        mlp_size=model.mlp_size,
        context_length=model.context_length,
        tied=model.tied,
        eos_token_id=0,
        pad_token_id=0,
    )


def sampling(config: TrainConfig, eos_token_ids: tuple[int, ...]) -> Sampling:
    """How training answers are drawn."""
    algorithm = config.algorithm
    return Sampling(
        temperature=algorithm.temperature,
        max_new_tokens=algorithm.max_new_tokens,
        eos_token_ids=eos_token_ids,
        num_samples=algorithm.samples_per_prompt,
    )


def generator_settings(config: TrainConfig) -> VllmSettings | HfSettings:
    """The engine's."""
    generator = config.generator
    max_model_len = config.data.max_prompt_tokens + config.algorithm.max_new_tokens
    if generator.backend == "hf":
        return HfSettings(
            dtype=generator.dtype,
            device=config.learner.device,
            max_model_len=max_model_len,
            max_rows=generator.max_num_seqs,
        )
    return VllmSettings(
        dtype=generator.dtype,
        max_model_len=max_model_len,
        max_num_seqs=generator.max_num_seqs,
        kv_cache_gib=generator.kv_cache_gib if config.learner.device == "cpu" else None,
        gpu_memory_utilization=generator.gpu_memory_utilization,
        enforce_eager=generator.enforce_eager,
        tensor_parallel_size=generator.tensor_parallel_size,
        weight_transfer=generator.transport,
        seed=config.seed,
    )


def distribution(config: TrainConfig) -> TokenDistribution:
    """Which distribution log-probs are of, in policy and reference alike."""
    return TokenDistribution(
        temperature=config.algorithm.temperature,
        num_token_ids=None,
        chunk_tokens=config.learner.logprob_chunk_tokens,
    )


def learner_settings(config: TrainConfig, *, role: RoleConfig) -> LearnerSettings:
    """A learner worker's."""
    learner = config.learner
    return LearnerSettings(
        torch=TorchSettings(
            device=learner.device,
            max_tokens=learner.micro_batch_tokens,
            betas=(learner.adam_beta1, learner.adam_beta2),
            eps=learner.adam_eps,
            weight_decay=learner.weight_decay,
            max_grad_norm=learner.max_grad_norm,
            checkpoint_layers=learner.gradient_checkpointing,
            distribution=distribution(config),
        ),
        bucket_bytes=config.generator.bucket_mib * MIB,
        save_dtype=config.model.save_dtype,
        threads=role.threads,
    )


def resources(config: TrainConfig) -> dict[str, Resources]:
    """What each worker reserves, by role; generators are numbered."""
    placement = config.placement
    roles = {
        "data": placement.data,
        "policy": placement.policy,
        "critic": placement.critic,
        "reference": placement.reference,
        "reward": placement.reward,
    }
    roles |= {f"generator-{i}": placement.generator for i in range(config.generator.num_replicas)}
    return {
        name: Resources(num_cpus=role.num_cpus, num_gpus=role.num_gpus, threads=role.threads)
        for name, role in roles.items()
    }


def cluster_settings(config: TrainConfig) -> ClusterSettings:
    """Which cluster, and how long to wait."""
    placement = config.placement
    return ClusterSettings(
        address=placement.address,
        object_store_bytes=placement.object_store_mib * MIB,
        strategy=placement.strategy,
        wait_s=placement.wait_s,
        phase_limit_s=placement.phase_limit_s,
    )


def probe_settings(config: TrainConfig) -> ProbeSettings:
    """What every sync is checked with."""
    return ProbeSettings(
        num_prompts=PROBE_PROMPTS,
        max_new_tokens=min(PROBE_TOKENS, config.algorithm.max_new_tokens),
        limit=config.check.logprob_gap,
    )
