"""Records and display."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class TrackingConfig:
    """conf/tracking."""

    progress: str = setting(
        "auto", "live display (auto: where the output is a terminal)", choices=("auto", "on", "off")
    )
    backend: str = setting(
        "local",
        "a tracker beside the local files, which are always written",
        choices=("local", "wandb", "wandb_offline", "tensorboard"),
    )
    project: str = setting("rlhf_ray", "W&B: project that runs go to")
    entity: str | None = setting(None, "W&B: user or team; empty: W&B's own default")
    upload_models: bool = setting(False, "W&B: upload models themselves, not their cards alone")
    patience_s: float = setting(
        20.0, "how long a tracker may hang before training goes on without it", unit="s", above=0
    )
    num_samples: int = setting(16, "held-out prompts in the table of each evaluation", unit="prompts", low=0)
    allow_changed: bool = setting(
        False,
        "go on with an artifact whose files are not what its artifact.json says, and continue a run on other data "
        "than it was started with",
    )
    keep_rollouts: int = setting(100, "iterations whose rollout records are kept", unit="iterations", low=1)


@dataclass(kw_only=True)
class CheckpointConfig:
    """conf/checkpoint."""

    every: int = setting(10, "PPO iterations between checkpoints (one is always written at a stage's end)", low=1)
    sft_every: int = setting(100, "SFT steps between checkpoints", low=1)
    reward_model_every: int = setting(100, "reward-model steps between checkpoints", low=1)
    keep: int = setting(2, "checkpoints of a stage that are kept", low=1)
