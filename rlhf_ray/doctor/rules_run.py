"""Rules about numbers, answers' ends, generators and speed. Rows as in rules_policy.py."""

from __future__ import annotations

GRADIENTS = ("policy/grad_norm", "val/grad_norm", "sft/grad_norm", "reward_model/grad_norm", "dpo/grad_norm")
# undefined by design elsewhere (no variance, nothing counted)
MUST_BE_FINITE = (
    "objective/scores",
    "objective/kl",
    "objective/rlhf_reward",
    "objective/entropy",
    "policy/entropy_avg",
    "policy/approxkl_avg",
    "loss/policy_avg",
    "loss/value_avg",
    "loss/kl_avg",
    "val/ratio",
    "sft/loss",
    "sft/val_loss",
    "reward_model/loss",
    "reward_model/val_loss",
    "dpo/loss",
    *GRADIENTS,
)

RUN_RULES = (
    (
        "nonfinite.value",
        "any",
        (MUST_BE_FINITE,),
        "a loss, a score or a gradient norm is NaN or infinite",
        {"filler_share": 0.3},
        "nothing learns from it; a column that alternates with numbers from the start is taken as not logged there",
    ),
    (
        "gradient_explosion.norm",
        "any",
        (GRADIENTS,),
        "a gradient norm is many times its recent level",
        {"warning": 10.0, "critical": 100.0, "spread": 4.0, "window": 10, "persistence": 2},
        "relative to the run's own level; clipping hides it from the weights, not from the direction",
    ),
    (
        "lost_eos.rate",
        "ppo",
        (("val/eos_rate",),),
        "fewer answers end by themselves than at the start",
        {"warning": 0.1, "critical": 0.4, "start": 0.3, "baseline": 3, "persistence": 3},
        "the end-of-answer trick must keep it near the start's (2403.17031, detail 23)",
    ),
    (
        "stale_generator.kl_mismatch",
        "ppo",
        (("rollout/kl_mismatch",),),
        "the generator's probabilities differ from the learner's",
        {"warning": 0.01, "critical": 0.1, "persistence": 2},
        "1e-3 per token is typical (NeMo-RL, grpo.md); above 0.1 samples are another policy's (verl, rollout_corr)",
    ),
    (
        "stale_generator.logprob_gap",
        "ppo",
        (("rollout/logprob_absdiff_mean", "rollout/logprob_absdiff_max"),),
        "log-probs of generator and learner part; limits for the mean, and `max_*` for the largest of a batch",
        {
            "warning": 0.02,
            "critical": 0.2,
            "max_factor": 20.0,
            "max_warning": 1.0,
            "max_critical": 4.0,
            "persistence": 2,
        },
        "a mean drifting past 1-2 % is a weight-sync bug (NeMo-RL, grpo.md)",
    ),
    (
        "stale_generator.version_lag",
        "ppo",
        (("rollout/policy_version_lag",),),
        "answers come from older weights than at the start of the run",
        {"warning": 1.0, "critical": 4.0, "baseline": 3, "persistence": 2},
        "the synchronous loop has lag 0",
    ),
    (
        "stalled_throughput.time",
        "any",
        (("time/iteration", "throughput/tokens_per_second", "throughput/samples_per_second"),),
        "an iteration takes a multiple of its usual time",
        {"warning": 3.0, "spread": 4.0, "window": 10, "persistence": 4},
        "relative to the run's own pace",
    ),
)
