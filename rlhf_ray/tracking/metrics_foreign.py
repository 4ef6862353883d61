"""Metrics that only other trainers record: the doctor reads them in their logs, under these names."""

from __future__ import annotations

from rlhf_ray.tracking.metric import Metric

FOREIGN_METRICS = (
    Metric("reward/disagreement", "standard deviation over the scorers of an ensemble", "score", "mean over answers"),
    Metric("reward/masked", "answers left out because their score was not finite", "answers", "sum"),
    Metric("dpo/loss", "-log sigmoid(beta * (chosen - rejected log-ratios))", "nats", "mean over pairs"),
    Metric("dpo/val_loss", "dpo/loss on held-out pairs", "nats", "mean over pairs"),
    Metric("dpo/accuracy", "chosen log-ratio > rejected log-ratio", "share", "mean over pairs"),
    Metric("dpo/margin", "beta * (chosen - rejected log-ratios)", "nats", "mean over pairs"),
    Metric("dpo/chosen_reward", "beta * log-ratio of the chosen answer", "nats", "mean over pairs"),
    Metric("dpo/rejected_reward", "beta * log-ratio of the rejected answer", "nats", "mean over pairs"),
)
