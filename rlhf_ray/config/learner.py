"""How models are optimised."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class LearnerConfig:
    """conf/learner."""

    backend: str = setting("torch", "training backend", choices=("torch",))
    device: str = setting("cpu", "where models compute", choices=("cpu", "cuda"))
    micro_batch_tokens: int = setting(4096, "tokens (padding included) per forward and backward pass", low=1)
    logprob_chunk_tokens: int = setting(1024, "tokens whose logits exist at once", low=1)
    gradient_checkpointing: bool = setting(False, "compute activations twice instead of keeping them: slower, smaller")
    max_grad_norm: float = setting(1.0, "gradients are clipped to this norm", above=0)
    adam_eps: float = setting(1e-5, "AdamW epsilon", above=0)
    adam_beta1: float = setting(0.9, "AdamW beta 1", low=0, high=0.9999)
    adam_beta2: float = setting(0.999, "AdamW beta 2", low=0, high=0.9999)
    weight_decay: float = setting(0.0, "AdamW weight decay", low=0)
