"""The identities that hold before the first update. A run that breaks one trains on something else.

- the ratio of the loss's log-probs to the old ones is 1, nothing clips, the approximate KL is 0;
- at step 0 the policy is the reference: their KL is 0;
- the generator's log-probs of its own answers are the learner's: its weights, temperature and masks are right;
- a critic started from the reward model says at the last token what the reward model says.

(Huang et al. 2024, "The N+ Implementation Details of RLHF with PPO", details 7, 22; algorithm.md section 6.)
"""

from __future__ import annotations

from dataclasses import dataclass

from rlhf_ray.errors import SelfCheckError
from rlhf_ray.types import Stats


@dataclass(frozen=True, kw_only=True)
class CheckLimits:
    """Largest accepted distance from each identity."""

    ratio: float
    kl: float  # nats
    logprob_gap: float  # nats, on one token
    critic_gap: float


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One identity: where its measure is found, what it must equal, how far it may be off."""

    metric: str
    expected: float
    limit: float
    meaning: str
    only_at_start: bool


def identities(limits: CheckLimits) -> tuple[Identity, ...]:
    """All identities. `only_at_start`: meaningless once training has begun."""
    return (
        Identity(
            metric="val/ratio",
            expected=1.0,
            limit=limits.ratio,
            meaning="ratio of new to old probabilities before any update",
            only_at_start=False,
        ),
        Identity(
            metric="policy/ratio_max",
            expected=1.0,
            limit=limits.ratio,
            meaning="largest such ratio",
            only_at_start=False,
        ),
        Identity(
            metric="policy/clipfrac_avg",
            expected=0.0,
            limit=0.0,
            meaning="share of tokens that clip",
            only_at_start=False,
        ),
        Identity(
            metric="policy/approxkl_avg",
            expected=0.0,
            limit=limits.kl,
            meaning="approximate KL to the old policy",
            only_at_start=False,
        ),
        Identity(
            metric="rollout/logprob_absdiff_max",
            expected=0.0,
            limit=limits.logprob_gap,
            meaning="largest log-prob difference of generator and learner",
            only_at_start=False,
        ),
        Identity(
            metric="objective/kl",
            expected=0.0,
            limit=limits.kl,
            meaning="KL of the policy to the reference (is model.path the reference's start?)",
            only_at_start=True,
        ),
        Identity(
            metric="check/critic_gap",
            expected=0.0,
            limit=limits.critic_gap,
            meaning="critic against reward model at the last token",
            only_at_start=True,
        ),
    )


def check_identities(stats: Stats, *, step: int, limits: CheckLimits) -> None:
    """Raise SelfCheckError with every number if an identity that applies does not hold.

    An identity whose metric was not measured (no reference, another start of the critic) does not apply.
    """
    lines, broken = [], False
    for identity in identities(limits):
        if identity.metric not in stats or (identity.only_at_start and step > 0):
            continue
        value = stats[identity.metric].value
        holds = value is not None and abs(value - identity.expected) <= identity.limit
        broken = broken or not holds
        mark = "ok" if holds else "BROKEN"
        expected = f"expected {identity.expected:g} +- {identity.limit:g}"
        lines.append(f"  {mark:6} {identity.metric} = {value} ({expected}): {identity.meaning}")
    if broken:
        raise SelfCheckError(
            f"the identities of step {step} do not hold; nothing was trained:\n"
            + "\n".join(lines)
            + "\nSet check.enabled=false only if you know why."
        )
