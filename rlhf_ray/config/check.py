"""Limits of the step-0 check."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class CheckConfig:
    """conf/check. See loops/self_check.py for the identities."""

    enabled: bool = setting(True, "prove the identities of step 0 at the start and after a resume")
    ratio: float = setting(1e-4, "largest distance of the ratio from 1", above=0)
    kl: float = setting(1e-4, "largest approximate KL, and KL to the reference per answer", unit="nats", above=0)
    logprob_gap: float = setting(
        1e-3, "largest log-prob difference of generator and learner on one token", unit="nats", above=0
    )
    critic_gap: float = setting(1e-4, "largest difference of critic and reward model at the last token", above=0)
