"""Rules about the reward: hacking in its forms, over-optimisation, plateau. Rows as in rules_policy.py."""

from __future__ import annotations

_HELD_OUT = ("eval/gold_score", "eval/win_rate")
_SCORE = ("objective/scores", "eval/proxy_score", "objective/rlhf_reward")

REWARD_RULES = (
    (
        "reward_hacking.evaluation_falls",
        "ppo",
        (_SCORE, _HELD_OUT),
        "the score rises while the held-out score has fallen from its best by a share of its whole gain, by "
        "`noise` standard errors, and by `least` of the best, at a KL of at least `kl` nats",
        {"warning": 0.1, "critical": 0.25, "noise": 4.0, "least": 0.05, "kl": 2.0, "persistence": 2},
        "proxy and gold part ways (Gao et al. 2022, 2210.10760)",
    ),
    (
        "reward_hacking.evaluation_flat",
        "ppo",
        (_SCORE, _HELD_OUT),
        "the score rises by `rise` times its noise and the KL passes `kl` nats, the held-out score never leaves "
        "its noise upwards",
        {"rise": 3.0, "noise": 2.0, "evaluations": 4, "kl": 5.0},
        "a reward model from few comparisons rewards nothing that matters (2210.10760: about 2000 are needed)",
    ),
    (
        "reward_hacking.part_falls",
        "ppo",
        (_SCORE, ("eval/parts/*", "reward/parts/*")),
        "one part of the judgement falls below a share of its best while the score rises",
        {"warning": 0.8, "critical": 0.5, "persistence": 2},
        "a good score with a lost property: fluent words, broken sentences",
    ),
    (
        "reward_hacking.above_ceiling",
        "ppo",
        (("objective/scores",), ("reward_model/score_ceiling",)),
        "the mean score is above what the reward model gives its best held-out answers",
        {"persistence": 3},
        "99th percentile of the scores of held-out chosen answers",
    ),
    (
        "reward_hacking.length",
        "ppo",
        (_SCORE, ("response/length_mean",)),
        "the score rises with the length of the answers, and they grow",
        {"growth": 1.5, "correlation": 0.5, "baseline": 5, "persistence": 3},
        "70-90 % of a reward gain can be length (Singhal et al. 2023, 2310.03716); 30 to 44 tokens is normal on TL;DR",
    ),
    (
        "reward_hacking.disagreement",
        "ppo",
        (("reward/disagreement",),),
        "the scorers of the ensemble disagree more and more",
        {"warning": 2.0, "critical": 4.0, "baseline": 5, "persistence": 3},
        "a policy outside their training data; relative to the run's own start",
    ),
    (
        "reward_hacking.preferences",
        "ppo",
        (("eval/preference_accuracy",),),
        "on the policy's own answers the reward model agrees with the judge no more than chance, unlike at the start, "
        "on at least `pairs` pairs",
        {"warning": 0.55, "critical": 0.45, "pairs": 30, "persistence": 2},
        "0.40 in the 1B runs that collapsed, 0.73-0.77 in larger ones (2403.17031)",
    ),
    (
        "over_optimisation.peak",
        "ppo",
        (("eval/gold_score",), ("eval/kl", "objective/kl")),
        "the fit R = d (a - b ln d), d = sqrt(KL), has its peak behind the run, and the gold score has fallen",
        {"points": 4, "spread": 1.5, "fit": 0.8, "warning": 0.1, "critical": 0.25},
        "Gao et al. 2022, 2210.10760",
    ),
    (
        "plateau.score_flat",
        "ppo",
        (_SCORE, ("objective/kl", "loss/kl_avg")),
        "the score has stopped rising while the KL goes on growing",
        {"points": 24, "noise": 2.0, "kl_growth": 1.1},
        "relative to the noise of the score's own steps",
    ),
    (
        "reward_model_near_chance.accuracy",
        "reward_model",
        (("reward_model/val_accuracy", "reward_model/accuracy"),),
        "the reward model tells chosen from rejected hardly better than a coin, on at least `pairs` pairs",
        {"warning": 0.6, "critical": 0.55, "pairs": 30},
        "0.63-0.69 on TL;DR (2403.17031); below that, PPO climbs noise",
    ),
    (
        "reward_model_overfit.validation",
        "reward_model",
        (("reward_model/val_loss", "reward_model/val_accuracy"),),
        "on held-out pairs the loss rises from its best, or the accuracy falls",
        {"loss": 1.1, "accuracy": 0.03, "pairs": 30, "persistence": 2},
        "relative to the model's own best checkpoint",
    ),
    (
        "reward_model_overfit.gap",
        "reward_model",
        (("reward_model/accuracy",), ("reward_model/val_accuracy",)),
        "the accuracy on training pairs is far above that on held-out pairs",
        {"warning": 0.15, "critical": 0.3, "pairs": 30, "persistence": 1},
        "0.00-0.03 on healthy runs",
    ),
    (
        "reward_model_overfit.margin",
        "reward_model",
        (("reward_model/val_margin_mean", "reward_model/margin_mean"),),
        "the margin between chosen and rejected falls to a share of its best, which was at least `least`",
        {"warning": 0.5, "least": 0.1, "persistence": 2},
        "margin collapse; relative to the run's own best",
    ),
    (
        "sft_overfit.validation",
        "sft",
        (("sft/val_loss",),),
        "the held-out loss rises from its best",
        {"warning": 1.02, "critical": 1.2, "persistence": 2},
        "relative to the run's own best",
    ),
)
