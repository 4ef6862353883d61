"""Which curves the page draws, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

# Okabe & Ito's palette, told apart with any colour vision
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY = "#6b7280"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One metric in a chart."""

    metric: str
    label: str
    color: str
    dots: bool = False  # measured now and then
    right: bool = False  # has the axis on the right
    dash: bool = False
    stack: bool = False  # lies on those before it


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One panel."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    band: tuple[str, str, str] | None = None  # low, high, label
    right_unit: str = ""
    ceiling: bool = False  # with the reward model's own


def _phases(*names: str) -> tuple[Line, ...]:
    colors = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, "#F0E442", GREY, "#b3b9c4", "#4b5563")
    return tuple(
        Line(metric=f"time/{name}", label=name.replace("_", " "), color=color, stack=True)
        for name, color in zip(names, colors, strict=False)
    )


PPO = (
    Chart(
        title="Reward-model score",
        unit="score",
        lines=(
            Line(metric="objective/scores", label="mean of the batch", color=BLUE),
            Line(metric="eval/proxy_score", label="held-out prompts", color=ORANGE, dots=True),
        ),
        band=("objective/scores_p05", "objective/scores_p95", "5 to 95 % of answers"),
        ceiling=True,
    ),
    Chart(
        title="Gold score (not trained on)",
        unit="gold score",
        lines=(Line(metric="eval/gold_score", label="gold score", color=GREEN, dots=True),),
    ),
    Chart(
        title="Win rate against the start (by gold, else by the reward model itself)",
        unit="win rate",
        lines=(Line(metric="eval/win_rate", label="win rate", color=SKY, dots=True),),
    ),
    Chart(
        title="Distance from the start, and beta",
        unit="KL, nats per answer",
        lines=(
            Line(metric="objective/kl", label="mean of the batch", color=VERMILION),
            Line(metric="eval/kl", label="held-out prompts", color=ORANGE, dots=True),
            Line(metric="objective/kl_coef", label="beta (right)", color=GREY, right=True, dash=True),
        ),
        right_unit="beta",
    ),
    Chart(
        title="Entropy of the policy",
        unit="nats per token",
        lines=(Line(metric="policy/entropy_avg", label="entropy", color=BLUE),),
    ),
    Chart(
        title="How far one update goes",
        unit="clip fraction",
        lines=(
            Line(metric="policy/clipfrac_avg", label="clip fraction", color=BLUE),
            Line(metric="policy/approxkl_avg", label="approximate KL (right)", color=VERMILION, right=True, dash=True),
        ),
        right_unit="nats per token",
    ),
    Chart(
        title="Ratio of new to old probabilities",
        unit="ratio",
        lines=(
            Line(metric="val/ratio", label="mean", color=BLUE),
            Line(metric="policy/ratio_p50", label="median", color=GREY, dash=True),
        ),
        band=("policy/ratio_p05", "policy/ratio_p95", "5 to 95 % of tokens"),
    ),
    Chart(
        title="Losses",
        unit="policy loss",
        lines=(
            Line(metric="loss/policy_avg", label="policy loss", color=BLUE),
            Line(metric="loss/value_avg", label="value loss (right)", color=PINK, right=True, dash=True),
        ),
        right_unit="value loss",
    ),
    Chart(
        title="Explained variance of the critic",
        unit="share",
        lines=(Line(metric="val/explained_variance", label="explained variance", color=PINK),),
    ),
    Chart(
        title="Gradient norms",
        unit="policy",
        lines=(
            Line(metric="policy/grad_norm", label="policy", color=BLUE),
            Line(metric="val/grad_norm", label="critic (right)", color=PINK, right=True, dash=True),
        ),
        right_unit="critic",
    ),
    Chart(
        title="Length of the answers, and how they end",
        unit="tokens",
        lines=(
            Line(metric="response/length_mean", label="mean length", color=BLUE),
            Line(metric="response/length_max", label="longest", color=SKY, dash=True),
            Line(metric="val/eos_rate", label="ended by themselves (right)", color=PINK, right=True),
        ),
        right_unit="share",
    ),
    Chart(
        title="Variety of the answers",
        unit="share",
        lines=(
            Line(metric="response/distinct_1", label="distinct words", color=SKY),
            Line(metric="response/distinct_2", label="distinct bigrams", color=BLUE),
            Line(metric="response/repetition_4gram", label="repeated 4-grams", color=VERMILION),
        ),
    ),
    Chart(
        title="Time of an iteration",
        unit="seconds",
        lines=_phases(
            "generate",
            "score",
            "reference",
            "policy_logprobs",
            "values",
            "update",
            "sync",
            "estimate",
            "record",
            "orchestration",
        ),
    ),
)
SFT = (
    Chart(
        title="Loss",
        unit="nats per token",
        lines=(
            Line(metric="sft/loss", label="training", color=BLUE),
            Line(metric="sft/val_loss", label="held out", color=ORANGE, dots=True),
        ),
    ),
    Chart(
        title="Gradient norm and learning rate",
        unit="gradient norm",
        lines=(
            Line(metric="sft/grad_norm", label="gradient norm", color=BLUE),
            Line(metric="sft/learning_rate", label="learning rate (right)", color=GREY, right=True, dash=True),
        ),
        right_unit="learning rate",
    ),
)
REWARD_MODEL = (
    Chart(
        title="Loss",
        unit="nats per pair",
        lines=(
            Line(metric="reward_model/loss", label="training", color=BLUE),
            Line(metric="reward_model/val_loss", label="held out", color=ORANGE, dots=True),
        ),
    ),
    Chart(
        title="Accuracy",
        unit="pairs in the right order",
        lines=(
            Line(metric="reward_model/accuracy", label="training", color=BLUE),
            Line(metric="reward_model/val_accuracy", label="held out", color=ORANGE, dots=True),
        ),
    ),
    Chart(
        title="Margin between chosen and rejected",
        unit="score",
        lines=(
            Line(metric="reward_model/margin_mean", label="training", color=BLUE),
            Line(metric="reward_model/val_margin_mean", label="held out", color=ORANGE, dots=True),
        ),
    ),
    Chart(
        title="Gradient norm",
        unit="gradient norm",
        lines=(Line(metric="reward_model/grad_norm", label="gradient norm", color=BLUE),),
    ),
)
DPO = (
    Chart(title="Loss", unit="nats", lines=(Line(metric="dpo/loss", label="loss", color=BLUE),)),
    Chart(title="Accuracy", unit="share", lines=(Line(metric="dpo/accuracy", label="accuracy", color=BLUE),)),
)
CHARTS: dict[str, tuple[Chart, ...]] = {"sft": SFT, "reward_model": REWARD_MODEL, "dpo": DPO, "ppo": PPO}
STAGE_TITLES = {
    "sft": "Supervised fine-tuning",
    "reward_model": "Reward model",
    "dpo": "Direct preference optimisation",
    "ppo": "PPO",
}
STEP_WORDS = {"ppo": "iteration"}  # the others count steps
