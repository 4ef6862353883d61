"""What each kind of finding means. Changes are named as in advice_changes.py."""

from __future__ import annotations

_HACKING = (
    "the policy has found what the reward model overrates",
    "the KL penalty is too weak to keep it near answers the reward model knows",
    "too few or too narrow comparisons behind the reward model",
)

# kind, or kind.form: phrase for the timeline, causes, changes, metrics to watch
ADVICE: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "runaway_kl": (
        "KL high",
        ("beta too small for this reward model", "learning rate too high", "too many passes over each batch"),
        ("beta_up", "kl_target", "samples", "lr_down", "stop_above"),
        ("objective/kl", "eval/gold_score", "policy/clipfrac_avg", "policy/entropy_avg"),
    ),
    "runaway_kl.jump": (
        "KL jumps",
        ("the policy found a way to a higher score far from the reference", "learning rate too high", "beta too small"),
        ("beta_up", "kl_target", "samples", "lr_down", "go_back"),
        ("objective/kl", "eval/gold_score", "policy/clipfrac_avg"),
    ),
    "kl_stuck": (
        "nothing moves",
        ("learning rate too low", "beta too high"),
        ("lr_up", "beta_down"),
        ("objective/kl", "policy/clipfrac_avg", "objective/scores"),
    ),
    "negative_kl": (
        "KL negative",
        (
            "sampling differs from the log-probs: top-k, top-p, a temperature on one side, a minimal length",
            "padding or the end token is counted on one side only",
            "the generator holds other weights than the learner",
        ),
        ("sync", "self_check"),
        ("rollout/kl_mismatch", "rollout/logprob_absdiff_max", "objective/kl"),
    ),
    "mode_collapse": (
        "mode collapse",
        (
            "one pattern of answer earns the best score, and nothing pays for variety",
            "learning rate too high or too many passes",
            "beta too small",
            "too few different prompts",
        ),
        ("entropy_bonus", "beta_up", "prompts", "temperature_up", "lr_down"),
        ("policy/entropy_avg", "response/distinct_2", "response/repetition_4gram", "eval/gold_score"),
    ),
    "mode_collapse.length": (
        "answers shrink",
        (
            "the shortest answer earns the best score: the reward model prefers it",
            "a penalty that only longer answers pay (missing end, KL per token) outweighs the score",
            "the critic predicts nothing, so that every long answer looks worse than expected",
            "learning rate too high",
        ),
        ("samples", "beta_up", "lr_down", "critic_lr", "go_back"),
        ("response/length_mean", "response/distinct_2", "val/explained_variance", "eval/gold_score"),
    ),
    "policy_instability": (
        "policy unstable",
        ("learning rate too high", "too many passes over each batch", "advantages of small batches are noisy"),
        ("lr_down", "epochs_down", "stop_passes", "more_prompts"),
        ("policy/clipfrac_avg", "policy/approxkl_avg", "policy/ratio_max", "objective/kl"),
    ),
    "policy_instability.loss_rise": (
        "policy loss rises",
        ("learning rate too high", "the advantages have grown: the critic no longer predicts the returns"),
        ("lr_down", "epochs_down", "stop_passes"),
        ("loss/policy_avg", "loss/value_avg", "policy/clipfrac_avg"),
    ),
    "value_failure": (
        "critic fails",
        ("the critic's learning rate is 0 or too low", "the returns move faster than the critic follows"),
        ("critic_lr", "lr_down"),
        ("val/explained_variance", "loss/value_avg", "response/length_mean"),
    ),
    "value_failure.loss_rise": (
        "value loss rises",
        (
            "the returns have moved: the policy went where the critic has not been",
            "the critic's learning rate is too high",
        ),
        ("lr_down", "critic_lr_down"),
        ("loss/value_avg", "val/explained_variance", "val/clipfrac_avg"),
    ),
    "value_failure.clip": (
        "value clip binds",
        ("the value clip is narrow for the size of the scores", "the critic's learning rate is too high"),
        ("value_clip", "critic_lr_down"),
        ("val/clipfrac_avg", "loss/value_avg", "val/explained_variance"),
    ),
    "nonfinite": (
        "not finite",
        ("an overflow in half precision", "an exploded gradient", "a score that is not finite"),
        ("go_back", "lr_down", "clip_norm"),
        ("policy/grad_norm", "val/grad_norm", "policy/ratio_max", "reward/masked"),
    ),
    "gradient_explosion": (
        "gradient explodes",
        ("learning rate too high", "one batch with extreme scores or ratios", "half precision"),
        ("clip_norm", "lr_down"),
        ("policy/grad_norm", "val/grad_norm", "objective/scores_max", "policy/ratio_max"),
    ),
    "plateau": (
        "converged",
        ("the score has reached what this reward model and beta allow",),
        ("stop", "beta_up", "evaluate_often"),
        ("objective/scores", "objective/kl", "eval/gold_score"),
    ),
    "lost_eos": (
        "answers no longer end",
        (
            "answers without end are not punished, or long ones score better",
            "the token limit is too small for the prompts",
            "collapse: answers repeat until they are cut",
        ),
        ("missing_eos", "longer", "samples", "beta_up"),
        ("val/eos_rate", "response/length_mean", "response/truncated_rate", "response/repetition_4gram"),
    ),
    "stale_generator": (
        "generator differs from learner",
        (
            "a weight sync was lost, incomplete or late",
            "the generator's temperature, top-k or precision differ",
            "generation runs ahead of training",
        ),
        ("sync", "self_check", "correction"),
        ("rollout/kl_mismatch", "rollout/logprob_absdiff_max", "rollout/policy_version_lag", "sync/probe_gap"),
    ),
    "reward_hacking": (
        "probable reward hacking",
        _HACKING,
        ("samples", "beta_up", "kl_target", "lr_down", "go_back", "evaluate_often"),
        ("eval/gold_score", "eval/win_rate", "objective/kl", "reward/length_correlation"),
    ),
    "reward_hacking.length": (
        "score follows length",
        ("the reward model prefers long answers", "the KL penalty is too weak"),
        ("samples", "beta_up", "other_judge"),
        ("reward/length_correlation", "response/length_mean", "eval/gold_score"),
    ),
    "reward_hacking.above_ceiling": (
        "score above the ceiling",
        (
            "the answers are better than any that the reward model was trained on, or only ones that it overrates: its "
            "score cannot tell which",
            "the KL penalty is too weak to keep the policy near answers the reward model knows",
            "too few or too narrow comparisons behind the reward model",
        ),
        ("samples", "other_judge", "beta_up", "evaluate_often"),
        ("objective/scores", "eval/gold_score", "objective/kl"),
    ),
    "reward_hacking.disagreement": (
        "scorers disagree",
        ("the policy writes what the scorers were not trained on",),
        ("samples", "beta_up", "rm_pairs"),
        ("reward/disagreement", "eval/gold_score", "objective/kl"),
    ),
    "reward_hacking.preferences": (
        "reward model at chance on the policy's answers",
        ("the policy has left the answers the reward model was trained on",),
        ("other_judge", "beta_up", "rm_pairs"),
        ("eval/preference_accuracy", "eval/gold_score", "objective/kl"),
    ),
    "over_optimisation": (
        "past the peak",
        _HACKING,
        ("go_back", "stop", "beta_up", "checkpoint_often"),
        ("eval/gold_score", "eval/kl", "eval/proxy_score"),
    ),
    "reward_model_near_chance": (
        "reward model near chance",
        (
            "too few comparisons",
            "chosen and rejected swapped, or labels that disagree with each other",
            "learning rate too low: the head has not moved",
        ),
        ("no_ppo", "rm_pairs", "rm_lr_up"),
        ("reward_model/val_accuracy", "reward_model/val_accuracy_clear", "reward_model/margin_mean"),
    ),
    "reward_model_overfit": (
        "reward model overfits",
        ("too many passes over too few comparisons", "learning rate too high"),
        ("rm_epochs", "rm_lr_down", "rm_pairs"),
        ("reward_model/val_loss", "reward_model/val_accuracy", "reward_model/calibration_error"),
    ),
    "sft_overfit": (
        "fine-tuning overfits",
        ("too many passes over too few demonstrations", "learning rate too high"),
        ("sft_steps", "sft_lr_down"),
        ("sft/val_loss", "sft/rougeL"),
    ),
    "stalled_throughput": (
        "slow iterations",
        ("a worker waits or swaps", "answers have become long", "another program takes the machine"),
        ("phases", "replicas"),
        ("time/iteration", "time/generate", "time/idle", "response/length_mean"),
    ),
}
