"""Supervised fine-tuning."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class SftConfig:
    """conf/sft."""

    learning_rate: float | None = setting(
        None,
        "peak learning rate; empty: the top-level one",
        low=0,
        usual=(1e-6, 1e-4),
        outside="lower hardly moves the model, higher forgets what it knew (models trained from scratch need more)",
    )
    num_steps: int = setting(200, "optimizer steps", low=1)
    batch_size: int = setting(64, "demonstrations per step", unit="rows", low=1)
    schedule: str = setting("cosine", "learning-rate schedule", choices=("linear", "cosine", "constant"))
    warmup_steps: int = setting(0, "steps of linear warm-up", low=0)
    loss_on: str = setting(
        "answer",
        "trained tokens: the last answer, every answer of a conversation (assistant), or prompts, too (all)",
        choices=("answer", "assistant", "all"),
    )
    rouge_samples: int = setting(
        64, "held-out demonstrations whose prompts are answered each epoch, for ROUGE; 0: none", unit="rows", low=0
    )
    log_every: int = setting(10, "steps between two records", low=1)
