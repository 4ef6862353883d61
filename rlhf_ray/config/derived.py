"""What follows from a config and is needed in more than one place."""

from __future__ import annotations

from rlhf_ray.config.schema import TrainConfig


def stages_to_run(config: TrainConfig) -> tuple[str, ...]:
    """The stages asked for, without the reward model's where reward.path gives its result."""
    return tuple(stage for stage in config.stages if not (stage == "reward_model" and config.reward.path))


def gold_scorer(config: TrainConfig) -> str | None:
    """Which built-in scorer labels answers and judges evaluations; None where there is none."""
    if config.reward.gold == "auto":
        return config.data.built_in if config.data.prompts is None else None
    return None if config.reward.gold == "none" else config.reward.gold


def is_tiny(config: TrainConfig) -> bool:
    """Whether the policy starts as a small random model."""
    return config.model.path is None and config.model.new == "tiny"


def longest_sequence(config: TrainConfig) -> int:
    """Tokens of the longest prompt with the longest answer, sampled or read."""
    return config.data.max_prompt_tokens + longest_answer(config)[1]


def longest_answer(config: TrainConfig) -> tuple[str, int]:
    """The setting that allows it, and its tokens."""
    sampled, read = config.algorithm.max_new_tokens, config.data.max_answer_tokens or 0
    return ("data.max_answer_tokens", read) if read > sampled else ("algorithm.max_new_tokens", sampled)
