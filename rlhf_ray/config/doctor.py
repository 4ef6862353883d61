"""The run doctor while a run goes on. What it looks for: docs/doctor.md."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting

# what beta and the learning rates can do something about
TREATABLE = (
    "runaway_kl",
    "mode_collapse",
    "policy_instability",
    "value_failure",
    "reward_hacking",
    "over_optimisation",
    "plateau",
    "nonfinite",
    "gradient_explosion",
    "lost_eos",
)
IN_PPO = (*TREATABLE, "kl_stuck", "negative_kl", "stale_generator", "stalled_throughput")
KINDS = (*IN_PPO, "reward_model_near_chance", "reward_model_overfit", "sft_overfit")


@dataclass(kw_only=True)
class DoctorConfig:
    """conf/doctor. A kind of finding that no list names is told and recorded, nothing more.

    What is only to be watched ends nothing and changes nothing; `plateau`, which is never more, does.
    """

    enabled: bool = setting(True, "look for findings after every iteration")
    rules: str | None = setting(None, "YAML file with thresholds of your own; empty: the built-in ones", path=True)
    stop: list[str] = setting(
        ["nonfinite"],
        "kinds that end the run: PPO with a checkpoint, a stage before it with an error",
        choices=KINDS,
    )
    early_stop: list[str] = setting([], "kinds that end PPO as finished", choices=IN_PPO)
    adapt: list[str] = setting([], "kinds in PPO that raise beta or lower the learning rates", choices=TREATABLE)
    rollback: list[str] = setting(
        [], "kinds in PPO that go back to the last checkpoint before the onset, adapted", choices=TREATABLE
    )
    kl_coef_factor: float = setting(1.5, "beta is raised by this factor", above=1)
    kl_coef_start: float = setting(0.05, "what beta is raised to from 0", above=0)
    kl_coef_max: float = setting(1.0, "beta is never raised beyond", above=0)
    learning_rate_factor: float = setting(0.5, "the learning rates are lowered by this factor", above=0, high=1)
    learning_rate_min: float = setting(0.1, "smallest share of the schedules' learning rates", above=0, high=1)
    cooldown: int = setting(3, "iterations in which an action may show its effect", unit="iterations", low=0)
    max_rollbacks: int = setting(2, "rollbacks in a run", low=0)
