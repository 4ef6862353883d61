"""Metrics of evaluation, time and progress, the same for every stage."""

from __future__ import annotations

from rlhf_ray.tracking.metric import Metric

PROMPTS = "mean over held-out prompts"

EVALUATION = (
    Metric("eval/gold_score", "score by the gold scorer, which is not trained on", "score", PROMPTS),
    Metric("eval/proxy_score", "score by the reward model", "score", PROMPTS),
    Metric("eval/parts/<scorer>", "score of one scorer, or of one part of the gold scorer", "score", PROMPTS),
    Metric(
        "eval/win_rate",
        "better (by gold, else the reward model) than the start policy's answer with the same seed; ties 1/2",
        "share",
        PROMPTS,
    ),
    Metric("eval/win_rate_low", "lower end of its 95 % interval (Wilson)", "share", "over held-out prompts"),
    Metric("eval/win_rate_high", "upper end of its 95 % interval (Wilson)", "share", "over held-out prompts"),
    Metric("eval/gold_gain", "gold score - the start policy's, paired", "score", PROMPTS),
    Metric("eval/gold_gain_low", "lower end of its 95 % interval (t)", "score", "over held-out prompts"),
    Metric("eval/gold_gain_high", "upper end of its 95 % interval (t)", "score", "over held-out prompts"),
    Metric("eval/num_prompts", "held-out prompts answered", "prompts", "sum"),
    Metric("eval/num_answers", "answers to held-out prompts", "answers", "sum"),
    Metric("eval/preference_accuracy", "reward model agrees with gold, unseen pairs", "share", "mean over pairs"),
    Metric("eval/num_pairs", "unseen pairs", "pairs", "sum"),
    Metric("eval/perplexity", "exp(mean of -log p(token)) of held-out text", "1", "over tokens"),
    Metric("eval/kl", "sum over an answer's tokens of logp - ref_logp", "nats", "mean over answers"),
    Metric("eval/length_mean", "generated tokens of an answer", "tokens", "mean over answers"),
    Metric("eval/eos_rate", "answers that ended by themselves", "share", "mean over answers"),
    Metric("eval/distinct_1", "different tokens / tokens", "share", "over all answers"),
    Metric("eval/distinct_2", "different bigrams / bigrams", "share", "over all answers"),
    Metric("eval/repetition_4gram", "1 - different / all 4-grams of an answer", "share", "mean over answers"),
)

TIME = (
    Metric("time/generate", "sampling answers", "s", "per iteration"),
    Metric("time/score", "reward model or other scorers", "s", "per iteration"),
    Metric("time/reference", "reference log-probs", "s", "per iteration"),
    Metric("time/values", "critic's values", "s", "per iteration"),
    Metric("time/policy_logprobs", "policy log-probs before the update", "s", "per iteration"),
    Metric("time/estimate", "rewards, advantages, rollout record", "s", "per iteration"),
    Metric("time/update", "training policy and critic", "s", "per iteration"),
    Metric("time/sync", "weights to all generators, confirmed", "s", "per iteration"),
    Metric("time/evaluate", "held-out prompts and pairs", "s", "per iteration"),
    Metric("time/checkpoint", "writing the last checkpoint", "s", "per iteration"),
    Metric("time/record", "writing records", "s", "per iteration"),
    Metric("time/idle", "all workers waited", "s", "per iteration"),
    Metric("time/iteration", "wall time of the iteration", "s", "per iteration"),
    Metric("time/orchestration", "wall time in which no worker computed with a model", "s", "per iteration"),
    Metric("time/orchestration_share", "time/orchestration / time/iteration", "share", "per iteration"),
)

THROUGHPUT = (
    Metric("throughput/samples_per_second", "answers / time/iteration", "answers/s", "per iteration"),
    Metric("throughput/tokens_per_second", "generated tokens / time/iteration", "tokens/s", "per iteration"),
    Metric("throughput/generate_tokens_per_second", "generated tokens / time/generate", "tokens/s", "per iteration"),
    Metric("sync/seconds", "the last weight sync, from first byte to last confirmation", "s", "last"),
    Metric("sync/probe_gap", "generator against learner on fixed prompts after the sync", "nats", "max over tokens"),
    Metric("sync/version", "policy version that all generators confirmed", "steps", "last"),
    Metric("episode", "answers made so far", "answers", "last"),
    Metric("eps", "answers per second of this iteration", "answers/s", "per iteration"),
)

DATA = (
    Metric("data/rows_kept", "rows of the data files that are used", "rows", "sum over files"),
    Metric("data/rows_skipped", "rows that could not be used", "rows", "sum over files"),
    Metric("data/rows_dropped", "rows left out for their length", "rows", "sum over files"),
    Metric("data/rows_cut", "rows whose prompt lost its left", "rows", "sum over files"),
)

RUN_METRICS = DATA + EVALUATION + TIME + THROUGHPUT
