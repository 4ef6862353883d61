"""What follows from a config and is needed in more than one place."""

from __future__ import annotations

from rlhf_ray.config.schema import TrainConfig


def stages_to_run(config: TrainConfig) -> tuple[str, ...]:
    """The stages asked for, without the reward model's where reward.path gives its result."""
    return tuple(stage for stage in config.stages if not (stage == "reward_model" and config.reward.path))


def uses_gold(config: TrainConfig) -> bool:
    """Whether the built-in scorer of reviews labels pairs and judges evaluations."""
    return config.reward.gold == "reviews" or (config.reward.gold == "auto" and config.data.prompts is None)


def longest_sequence(config: TrainConfig) -> int:
    """Tokens of the longest prompt with the longest answer."""
    return config.data.max_prompt_tokens + config.algorithm.max_new_tokens
