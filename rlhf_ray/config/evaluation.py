"""Evaluation on held-out prompts."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class EvaluationConfig:
    """conf/evaluation."""

    every: int = setting(5, "iterations between evaluations (always before the first and after the last)", low=1)
    num_prompts: int = setting(256, "held-out prompts", low=1)
    samples_per_prompt: int = setting(2, "answers per held-out prompt", low=1)
    num_shown: int = setting(3, "prompts shown with their answers before and after", low=0)
