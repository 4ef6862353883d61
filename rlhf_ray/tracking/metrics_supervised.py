"""Metrics of supervised fine-tuning and of the reward model."""

from __future__ import annotations

from rlhf_ray.tracking.metric import Metric

SUPERVISED_METRICS = (
    Metric("sft/loss", "-log p(token)", "nats", "mean over trained tokens"),
    Metric("sft/val_loss", "sft/loss on held-out demonstrations", "nats", "mean over trained tokens"),
    Metric("sft/perplexity", "exp(sft/val_loss)", "1", "over trained tokens"),
    Metric("sft/learning_rate", "step size of the last optimizer step", "1", "last"),
    Metric("sft/grad_norm", "L2 norm of the gradient before clipping", "1", "mean over optimizer steps"),
    Metric("sft/skipped_steps", "steps that had nothing to train on", "steps", "sum"),
    Metric("sft/rouge1", "unigram F1 with the held-out demonstration", "share", "mean over demonstrations"),
    Metric("sft/rouge2", "bigram F1 with the held-out demonstration", "share", "mean over demonstrations"),
    Metric("sft/rougeL", "longest common subsequence F1", "share", "mean over demonstrations"),
    Metric("reward_model/loss", "-log sigmoid(chosen - rejected)", "nats", "mean over pairs"),
    Metric("reward_model/accuracy", "chosen > rejected, training pairs", "share", "mean over pairs"),
    Metric("reward_model/learning_rate", "step size of the last optimizer step", "1", "last"),
    Metric("reward_model/grad_norm", "L2 norm of the gradient before clipping", "1", "mean over optimizer steps"),
    Metric("reward_model/skipped_steps", "steps that had nothing to train on", "steps", "sum"),
    Metric("reward_model/val_loss", "reward_model/loss on held-out pairs", "nats", "mean over pairs"),
    Metric("reward_model/val_accuracy", "chosen > rejected, all held-out pairs", "share", "mean over pairs"),
    Metric(
        "reward_model/val_accuracy_clear",
        "the same on held-out pairs whose gold scores differ by 0.1 or more",
        "share",
        "mean over pairs",
    ),
    Metric(
        "reward_model/val_accuracy_by_margin/<bin>",
        "the same on held-out pairs whose gold difference lies in the bin",
        "share",
        "mean over pairs",
    ),
    Metric("reward_model/margin_mean", "chosen - rejected", "score", "mean over pairs"),
    Metric("reward_model/margin_std", "standard deviation of chosen - rejected", "score", "over pairs"),
    Metric("reward_model/val_margin_mean", "chosen - rejected, held-out pairs", "score", "mean over pairs"),
    Metric(
        "reward_model/calibration_error",
        "expected |sigmoid(margin) - accuracy| over 10 equal bins of confidence",
        "share",
        "weighted by pairs",
    ),
    Metric(
        "reward_model/score_ceiling",
        "99th percentile of the scores of held-out chosen answers; objective/scores above it is suspect",
        "score",
        "over answers",
    ),
    Metric("reward_model/reference_score", "scores of held-out demonstrations", "score", "mean over answers"),
    Metric("reward_model/reference_score_std", "their standard deviation", "score", "over answers"),
    Metric("reward_model/num_pairs", "training pairs", "pairs", "sum"),
    Metric("reward_model/num_val_pairs", "held-out pairs compared", "pairs", "sum"),
    Metric("reward_model/score_mean", "mean of the training answers' scores, subtracted from then on", "score", "last"),
    Metric("reward_model/score_std", "their standard deviation, divided by from then on", "score", "last"),
)
