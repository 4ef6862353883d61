"""Where scores come from."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class RewardConfig:
    """conf/reward."""

    path: str | None = setting(
        None, "Hugging Face directory of a one-output reward model; empty: this run's own", path=True
    )
    head: str = setting("score", "name of the tensor in reward.path that makes the score")
    gold: str = setting(
        "auto",
        "the independent scorer that labels pairs and judges evaluations (auto: the one made for the built-in corpus)",
        choices=("auto", "reviews", "sentences", "none"),
    )
