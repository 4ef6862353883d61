"""The headline metrics of each stage."""

from __future__ import annotations

HEADLINES: dict[str, tuple[tuple[str, str], ...]] = {
    "sft": (("loss", "sft/loss"), ("held-out loss", "sft/val_loss")),
    "reward_model": (("loss", "reward_model/loss"), ("held-out accuracy", "reward_model/val_accuracy")),
    "dpo": (("loss", "dpo/loss"), ("accuracy", "dpo/accuracy")),
    "ppo": (
        ("score", "objective/scores"),
        ("KL", "objective/kl"),
        ("KL per token", "loss/kl_avg"),
        ("held-out score", "eval/gold_score"),
        ("win rate", "eval/win_rate"),
        ("entropy", "policy/entropy_avg"),
    ),
}
CURVES: dict[str, tuple[str, ...]] = {
    stage: tuple(metric for _word, metric in headlines) for stage, headlines in HEADLINES.items()
} | {
    "ppo": (
        *(metric for _word, metric in HEADLINES["ppo"]),
        "loss/policy_avg",
        "loss/value_avg",
        "val/explained_variance",
        "policy/clipfrac_avg",
        "policy/approxkl_avg",
        "response/length_mean",
        "val/eos_rate",
    ),
}
