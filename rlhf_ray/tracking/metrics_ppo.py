"""Metrics of a PPO iteration. Names follow TRL's, so that existing dashboards read them; means are over the trained
tokens or the answers of the whole batch, whatever the minibatches and ranks.
"""

from __future__ import annotations

from rlhf_ray.tracking.metric import Metric

OBJECTIVE = (
    Metric("objective/scores", "reward-model score after the end-of-answer rule", "score", "mean over answers"),
    Metric("objective/scores_std", "its standard deviation (ddof 0)", "score", "over answers"),
    Metric("objective/scores_min", "its minimum", "score", "over answers"),
    Metric("objective/scores_max", "its maximum", "score", "over answers"),
    Metric("objective/scores_p05", "its 5th percentile", "score", "over answers"),
    Metric("objective/scores_p50", "its median", "score", "over answers"),
    Metric("objective/scores_p95", "its 95th percentile", "score", "over answers"),
    Metric("objective/scores_histogram", "its distribution in 30 bins, for trackers", "score", "over answers"),
    Metric("objective/kl", "sum over an answer's tokens of logp - ref_logp", "nats", "mean over answers"),
    Metric(
        "objective/non_score_reward",
        "-beta * KL, as added to the rewards; 0 when the KL is in the loss",
        "score",
        "mean over answers",
    ),
    Metric(
        "objective/rlhf_reward",
        "objective/scores + objective/non_score_reward: what is maximised",
        "score",
        "mean over answers",
    ),
    Metric("objective/entropy", "sum over an answer's tokens of -logp", "nats", "mean over answers"),
    Metric("objective/kl_coef", "beta in force", "score per nat", "last"),
)

POLICY = (
    Metric("policy/entropy_avg", "entropy of softmax(logits / T)", "nats", "mean over trained tokens"),
    Metric("policy/approxkl_avg", "(new - old)^2 / 2 of log-probs", "nats", "mean over trained tokens"),
    Metric("policy/approxkl_k3_avg", "exp(new - old) - 1 - (new - old)", "nats", "mean over trained tokens"),
    Metric("policy/clipfrac_avg", "the clip binds", "share", "mean over trained tokens"),
    Metric("policy/clipfrac_low_avg", "it binds on the low side (adv. < 0)", "share", "mean over trained tokens"),
    Metric("policy/clipfrac_high_avg", "it binds on the high side (adv. > 0)", "share", "mean over trained tokens"),
    Metric("policy/ratio_p05", "5th percentile of exp(new - old)", "1", "over trained tokens of the whole update"),
    Metric("policy/ratio_p50", "its median", "1", "over trained tokens of the whole update"),
    Metric("policy/ratio_p95", "its 95th percentile", "1", "over trained tokens of the whole update"),
    Metric("policy/ratio_max", "its maximum", "1", "max over trained tokens"),
    Metric("policy/ratio_histogram", "its distribution, for trackers", "1", "over trained tokens"),
    Metric("policy/grad_norm", "L2 norm of the policy's gradient before clipping", "1", "mean over optimizer steps"),
    Metric("policy/skipped_steps", "steps that had nothing to train on", "steps", "sum"),
    Metric("policy/optimizer_steps", "optimizer steps taken", "steps", "sum"),
    Metric("policy/epochs", "passes over the batch that were begun", "passes", "last"),
    Metric("policy/stopped_early", "1 where the approximate KL ended the passes", "0 or 1", "last"),
    Metric("loss/policy_avg", "clipped surrogate, before coefficients", "1", "mean over trained tokens"),
    Metric("loss/kl_avg", "KL estimator, where the KL is in the loss", "nats", "mean over trained tokens"),
    Metric("loss/value_avg", "(V - R)^2 / 2, clipped, before coefficients", "score^2", "mean over trained tokens"),
    Metric("lr", "the policy's step size", "1", "last"),
)

VALUE = (
    Metric("val/ratio", "exp(new - old) (the policy's, under TRL's name)", "1", "mean over trained tokens"),
    Metric("val/ratio_var", "its variance", "1", "over trained tokens of the whole update"),
    Metric("val/clipfrac_avg", "the value clip binds", "share", "mean over trained tokens"),
    Metric("val/explained_variance", "1 - Var(R - V) / Var(R); null when Var(R) = 0", "1", "over trained tokens"),
    Metric("val/num_eos_tokens", "answers that ended by themselves", "answers", "sum"),
    Metric("val/eos_rate", "their share", "share", "mean over answers"),
    Metric("val/grad_norm", "L2 norm of the critic's gradient before clipping", "1", "mean over optimizer steps"),
    Metric("val/skipped_steps", "steps of the critic that had nothing to train on", "steps", "sum"),
    Metric("val/optimizer_steps", "optimizer steps taken by the critic", "steps", "sum"),
    Metric("val/lr", "the critic's step size", "1", "last"),
)

RESPONSE = (
    Metric("response/length_mean", "generated tokens of an answer", "tokens", "mean over answers"),
    Metric("response/length_max", "the longest answer", "tokens", "max over answers"),
    Metric("response/truncated_rate", "answers cut at the token limit", "share", "mean over answers"),
    Metric("response/distinct_1", "different tokens / tokens", "share", "over the batch"),
    Metric("response/distinct_2", "different bigrams / bigrams", "share", "over the batch"),
    Metric("response/repetition_4gram", "1 - different / all 4-grams of an answer", "share", "mean over answers"),
)

REWARD = (
    Metric("reward/length_correlation", "Pearson correlation of score and length", "1", "over answers"),
    Metric("reward/parts/<scorer>", "score of one scorer, or of one part of it", "score", "mean over answers"),
)

ROLLOUT = (
    Metric(
        "rollout/kl_mismatch",
        "k3 estimate of KL(generator || learner) from the two log-probs of the sampled tokens",
        "nats",
        "mean over tokens",
    ),
    Metric("rollout/logprob_absdiff_max", "|generator's log-prob - learner's|", "nats", "max over tokens"),
    Metric("rollout/policy_version_lag", "learner step - version that generated", "steps", "mean over answers"),
    Metric("rollout/policy_version_lag_max", "the same", "steps", "max over answers"),
    Metric("rollout/num_tokens", "generated tokens", "tokens", "sum"),
    Metric("check/critic_gap", "|critic - reward model| at the last token, at the start", "score", "max over answers"),
)

PPO_METRICS = OBJECTIVE + POLICY + VALUE + RESPONSE + REWARD + ROLLOUT
