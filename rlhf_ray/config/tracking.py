"""Records and display."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class TrackingConfig:
    """conf/tracking."""

    progress: str = setting(
        "auto", "live display (auto: where the output is a terminal)", choices=("auto", "on", "off")
    )
    keep_rollouts: int = setting(100, "iterations whose rollout records are kept", unit="iterations", low=1)


@dataclass(kw_only=True)
class CheckpointConfig:
    """conf/checkpoint."""

    every: int = setting(10, "PPO iterations between checkpoints (one is always written at a stage's end)", low=1)
    sft_every: int = setting(100, "SFT steps between checkpoints", low=1)
    reward_model_every: int = setting(100, "reward-model steps between checkpoints", low=1)
    keep: int = setting(2, "checkpoints of a stage that are kept", low=1)
