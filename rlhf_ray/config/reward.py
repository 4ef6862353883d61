"""Where scores come from."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class RewardConfig:
    """conf/reward."""

    path: str | None = setting(None, "Hugging Face directory of a one-output reward model; empty: this run's own")
    gold: str = setting(
        "auto",
        "the independent scorer that labels pairs and judges evaluations (auto: reviews with the built-in data)",
        choices=("auto", "reviews", "none"),
    )
