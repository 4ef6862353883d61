"""Training the reward model."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class RewardModelConfig:
    """conf/reward_model."""

    learning_rate: float | None = setting(
        None,
        "peak learning rate; empty: the top-level one",
        low=0,
        usual=(1e-6, 1e-4),
        outside="lower leaves the head near its start, higher overfits (models trained from scratch need more)",
    )
    num_prompts: int = setting(3000, "prompts whose answers are sampled and compared (no preference file)", low=8)
    samples_per_prompt: int = setting(4, "answers per prompt, compared all with all", low=2, high=64)
    epochs: int = setting(2, "passes over the comparisons", low=1)
    batch_size: int = setting(64, "groups of answers per step", unit="prompts", low=1)
    schedule: str = setting("cosine", "learning-rate schedule", choices=("linear", "cosine", "constant"))
    warmup_steps: int = setting(0, "steps of linear warm-up", low=0)
    held_out_share: float = setting(0.1, "share of the compared prompts kept for validation", above=0, high=0.5)
    clear_gap: float = setting(0.1, "gold difference from which a pair counts as clear", low=0)
    normalize: str = setting(
        "mean_std", "what is fixed on the training answers after training", choices=("none", "mean", "mean_std")
    )
    log_every: int = setting(10, "steps between two records", low=1)
