"""Proximal policy optimisation."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class AlgorithmConfig:
    """conf/algorithm. Formulas: docs/algorithm.md."""

    name: str = setting("ppo", "which algorithm", choices=("ppo",))
    learning_rate: float | None = setting(
        None,
        "the policy's first learning rate; empty: the top-level one",
        low=0,
        usual=(1e-6, 1e-4),
        outside="lower hardly moves the policy, higher makes the KL run away (tiny models need more)",
    )
    critic_learning_rate: float | None = setting(None, "the critic's; empty: the policy's", low=0)
    schedule: str = setting("linear", "learning-rate schedule", choices=("linear", "cosine", "constant"))
    warmup_iterations: int = setting(0, "iterations of linear warm-up", low=0)
    num_iterations: int = setting(20, "rollout-and-update rounds", low=1)
    batch_size: int = setting(
        64,
        "prompts per iteration",
        unit="prompts",
        low=1,
        usual=(64, 512),
        outside="small batches make noisy advantages, large ones slow iterations",
    )
    samples_per_prompt: int = setting(1, "answers per prompt", low=1)
    max_new_tokens: int = setting(48, "longest answer", unit="tokens", low=1)
    temperature: float = setting(
        1.0,
        "sampling temperature, applied alike in generator, policy and reference",
        above=0,
        usual=(0.5, 1.2),
        outside="low temperatures hide the policy's tails, high ones train on noise",
    )
    epochs: int = setting(4, "passes over each batch", low=1, usual=(1, 10), outside="many passes overfit old answers")
    minibatches: int = setting(1, "optimizer steps per pass", low=1)
    kl_coef: float = setting(
        0.05,
        "beta: weight of the KL to the reference",
        low=0,
        usual=(0.01, 0.1),
        outside="lower invites reward hacking, higher freezes the policy",
    )
    kl_placement: str = setting("reward", "where the KL enters", choices=("reward", "loss"))
    kl_estimator: str = setting("k1", "estimator of the KL per token", choices=("k1", "k2", "k3"))
    kl_target: float | None = setting(
        None, "adapt beta towards this sequence KL (Ziegler et al. use 6); empty: fixed", unit="nats", above=0
    )
    kl_horizon: int = setting(10000, "episodes over which beta adapts", unit="episodes", low=1)
    reference: bool = setting(True, "compare with the frozen start of the policy")
    gamma: float = setting(1.0, "discount", low=0, high=1)
    lam: float = setting(0.95, "lambda of generalised advantage estimation", low=0, high=1)
    clip: float = setting(
        0.2,
        "lower (and, by default, upper) clip range of the ratio",
        above=0,
        high=0.99,
        usual=(0.1, 0.3),
        outside="narrow clips slow learning, wide ones let one batch move the policy far",
    )
    clip_high: float | None = setting(None, "upper clip range; empty: the same as clip", above=0)
    dual_clip: float | None = setting(None, "bound c of the dual clip for negative advantages; empty: off", above=1)
    value_clip: float | None = setting(0.2, "clip range of the value; empty: off", above=0)
    entropy_coef: float = setting(0.0, "weight of the entropy bonus", low=0)
    loss_form: str = setting(
        "token_mean",
        "how token losses are averaged",
        choices=("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "token_sum_norm"),
    )
    target_approx_kl: float | None = setting(
        None, "the policy ends its passes above 1.5 times this approximate KL; empty: off", unit="nats", above=0
    )
    score_slot: str = setting(
        "eos", "which slot the score lands on: the last token, or the one after it", choices=("eos", "after_eos")
    )
    missing_eos: str = setting(
        "replace", "what happens to the score of an answer without end token", choices=("replace", "subtract", "none")
    )
    missing_eos_value: float = setting(-1.0, "the replacing score (replace) or the amount added (subtract)")
    truncated: str = setting(
        "terminal", "value after the last token of a cut answer", choices=("terminal", "bootstrap")
    )
    whiten_rewards: bool = setting(False, "scale rewards to unit variance (mean kept)")
    whiten_advantages: bool = setting(True, "shift and scale advantages over the whole batch")
    rollout_correction: str = setting(
        "none",
        "importance weights for the generator's log-probs",
        choices=("none", "tis_token", "tis_sequence", "icepop", "sequence_mask"),
    )
    rollout_correction_low: float = setting(0.5, "smallest importance weight (icepop, sequence_mask)", low=0)
    rollout_correction_high: float = setting(2.0, "largest importance weight", above=0)
    stop_above_kl: float | None = setting(
        None, "end the run once the sequence KL to the reference is above this; empty: off", unit="nats", above=0
    )
    critic_init: str = setting("reward_model", "what the critic starts from", choices=("reward_model", "policy"))
