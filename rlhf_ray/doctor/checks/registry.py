"""Which function makes which check."""

from __future__ import annotations

from collections.abc import Mapping

from rlhf_ray.doctor.checks import answers, collapse, kl, numbers, policy, progress, reward, supervised, value
from rlhf_ray.doctor.checks.case import Check

CHECKS: Mapping[str, Check] = {
    "runaway_kl.level": kl.level,
    "runaway_kl.jump": kl.jump,
    "runaway_kl.target": kl.target,
    "kl_stuck.zero": kl.stuck,
    "negative_kl.mean": kl.negative,
    "mode_collapse.entropy": collapse.entropy,
    "mode_collapse.entropy_floor": collapse.entropy_floor,
    "mode_collapse.distinct": collapse.distinct,
    "mode_collapse.repetition": collapse.repetition,
    "mode_collapse.length": collapse.length,
    "policy_instability.clip_fraction": policy.clip_fraction,
    "policy_instability.approx_kl": policy.approx_kl,
    "policy_instability.ratio": policy.ratio,
    "policy_instability.loss_rise": policy.loss_rise,
    "value_failure.explained_variance": value.explained_variance,
    "value_failure.loss_rise": value.loss_rise,
    "value_failure.clip": value.clip,
    "reward_hacking.evaluation_falls": reward.evaluation_falls,
    "reward_hacking.evaluation_flat": reward.evaluation_flat,
    "reward_hacking.part_falls": reward.part_falls,
    "reward_hacking.above_ceiling": reward.above_ceiling,
    "reward_hacking.length": reward.length,
    "reward_hacking.disagreement": reward.disagreement,
    "reward_hacking.preferences": reward.preferences,
    "over_optimisation.peak": progress.peak,
    "plateau.score_flat": progress.plateau,
    "reward_model_near_chance.accuracy": supervised.near_chance,
    "reward_model_overfit.validation": supervised.reward_model_overfit,
    "reward_model_overfit.gap": supervised.accuracy_gap,
    "reward_model_overfit.margin": supervised.margin_collapse,
    "sft_overfit.validation": supervised.sft_overfit,
    "nonfinite.value": numbers.nonfinite,
    "gradient_explosion.norm": numbers.gradient_explosion,
    "lost_eos.rate": answers.lost_eos,
    "stale_generator.kl_mismatch": answers.kl_mismatch,
    "stale_generator.logprob_gap": answers.logprob_gap,
    "stale_generator.version_lag": answers.version_lag,
    "stalled_throughput.time": answers.stalled,
}
