"""Log-probs, losses and their averages against oracles.json. What is not part of the program is a slow loop here.

A function makes all expected numbers of its group; other trainers' values (unmasked, naive) are made as they make them.
"""

import math
from collections.abc import Callable

import pytest
import torch
from oracles import LOSS_GROUPS, Numbers, assert_matches, cases_of, expected_of, f64
from torch import Tensor

from rlhf_ray.algorithms import reward_scale
from rlhf_ray.algorithms.aggregation import LossForm, aggregation_weights
from rlhf_ray.algorithms.kl import KlEstimator, token_kl
from rlhf_ray.algorithms.logprobs import logprobs_and_entropy
from rlhf_ray.algorithms.losses import BradleyTerryLoss, PolicyLoss, ValueLoss, clipped_surrogate, ratio_stats
from rlhf_ray.algorithms.masking import (
    masked_mean,
    masked_sum,
)
from rlhf_ray.algorithms.shaping import (
    ScoreSlot,
    shape_rewards,
)
from rlhf_ray.types import PolicyOutputs, PolicyTargets, PreferenceTargets, ValueOutputs, ValueTargets


def compute_temperature(name: str, given: Numbers) -> Numbers:
    logits = f64(given["logits"])
    every = torch.arange(len(logits))
    raw, raw_entropy = logprobs_and_entropy(logits.expand(len(logits), -1), every, temperature=1.0)
    scaled, entropy = logprobs_and_entropy(logits.expand(len(logits), -1), every, temperature=given["T"])
    token = given["token"]
    return {
        "logprobs_T1": raw,
        "logprobs_T": scaled,
        "logprob_token_T1": raw[token],
        "logprob_token_T": scaled[token],
        "spurious_ratio_if_rollout_raw_trainer_scaled": (scaled[token] - raw[token]).exp(),
        "spurious_ratio_if_rollout_scaled_trainer_raw": (raw[token] - scaled[token]).exp(),
        "entropy_T1": raw_entropy[0],
        "entropy_T": entropy[0],
    }


def compute_entropy(name: str, given: Numbers) -> Numbers:
    logits = f64(given["logits"])
    entropy = logprobs_and_entropy(logits, torch.zeros(len(logits)), temperature=1.0)[1]
    return {"entropy_per_position": entropy, "max_entropy": math.log(logits.shape[1])}


def compute_ppo_clip_loss(name: str, given: Numbers) -> Numbers:
    old, new, advantages, mask = (f64(given[field]) for field in ("old_logprobs", "new_logprobs", "advantages", "mask"))
    loss = PolicyLoss(
        clip_low=given["eps_low"],
        clip_high=given["eps_high"],
        dual_clip=given["dual_clip"],
        entropy_coef=0.0,
        kl_coef=0.0,
        kl_estimator=KlEstimator.K1,
    )
    logprobs = new.flatten().requires_grad_()
    targets = PolicyTargets(
        weights=mask.flatten(), old_logprobs=old.flatten(), ref_logprobs=old.flatten(), advantages=advantages.flatten()
    )
    output = loss(PolicyOutputs(logprobs=logprobs, entropy=torch.zeros_like(logprobs)), targets)
    (gradient,) = torch.autograd.grad(output.loss_sum, logprobs)
    ratio, count = (new - old).exp(), mask.sum()
    per_token, binds = clipped_surrogate(
        ratio, advantages, clip_low=given["eps_low"], clip_high=given["eps_high"], dual_clip=given["dual_clip"]
    )
    stats = {name: stat.value for name, stat in output.stats.items()}
    assert stats["policy/clipfrac_low_avg"] + stats["policy/clipfrac_high_avg"] == pytest.approx(1 / 7)
    assert stats["loss/policy_avg"] == pytest.approx(float(output.loss_sum.detach() / count))
    return {
        "ratio": ratio,
        "per_token_loss": per_token,
        "pg_loss_token_mean": output.loss_sum / count,
        "clipfrac_masked": stats["policy/clipfrac_avg"],
        "clipfrac_unmasked": binds.double().mean(),
        "dloss_dlogp_per_token": gradient.reshape(mask.shape),
        "dloss_dlogp_token_mean": gradient.reshape(mask.shape) / count,
        "approxkl_k2_masked": stats["policy/approxkl_avg"],
        "approxkl_k2_unmasked": ((new - old) ** 2 / 2).mean(),
        "policykl_k1_masked": masked_mean(old - new, mask),
        "ratio_mean_masked": stats["val/ratio"],
        "ratio_mean_unmasked": ratio.mean(),
    }


def compute_value_clip_loss(name: str, given: Numbers) -> Numbers:
    values, old, returns, mask = (f64(given[field]) for field in ("vpred", "old_values", "returns", "mask"))
    targets = ValueTargets(weights=mask.flatten(), old_values=old.flatten(), returns=returns.flatten())
    outputs = ValueOutputs(values=values.flatten(), scores=torch.zeros(0))
    output = ValueLoss(clip=given["cliprange_value"])(outputs, targets)
    unclipped = ValueLoss(clip=None)(outputs, targets)
    # term by term, as one-token batches
    terms = [
        2
        * ValueLoss(clip=clip)(
            ValueOutputs(values=v[None], scores=torch.zeros(0)),
            ValueTargets(weights=torch.ones(1), old_values=o[None], returns=r[None]),
        ).loss_sum
        for clip in (given["cliprange_value"], None)
        for v, o, r in zip(values.flatten(), old.flatten(), returns.flatten(), strict=True)
    ]
    per_token, squares = torch.stack(terms).reshape(2, *mask.shape)
    bound = given["cliprange_value"]
    mean = output.loss_sum / mask.sum()
    return {
        "unclipped_sq": squares,
        "clipped_sq": (torch.minimum(torch.maximum(values, old - bound), old + bound) - returns) ** 2,
        "per_token": per_token,
        "vf_loss": mean,
        "vf_clipfrac": output.stats["val/clipfrac_avg"].value,
        "weighted_term": given["vf_coef"] * mean,
        "vf_loss_noclip": unclipped.loss_sum / mask.sum(),
    }


def compute_trl_metrics(name: str, given: Numbers) -> Numbers:
    old, ref, new, mask, advantages = (
        f64(given[field]) for field in ("logprobs", "ref_logprobs", "new_logprobs", "mask", "advantages_whitened")
    )
    shaped = shape_rewards(
        token_kl(old, ref, estimator=KlEstimator.K1),
        f64(given["scores"]),
        mask,
        kl_coef=given["beta"],
        score_slot=ScoreSlot.EOS,
    )
    scores, non_score = f64(given["scores"]).mean(), shaped.non_score.sum(dim=1).mean()
    loss = PolicyLoss(
        clip_low=0.2, clip_high=0.2, dual_clip=None, entropy_coef=0.0, kl_coef=0.0, kl_estimator=KlEstimator.K1
    )
    targets = PolicyTargets(
        weights=mask.flatten(), old_logprobs=old.flatten(), ref_logprobs=ref.flatten(), advantages=advantages.flatten()
    )
    output = loss(PolicyOutputs(logprobs=new.flatten(), entropy=torch.zeros(mask.numel())), targets)
    assert output.ratios is not None
    stats = {name: stat.value for name, stat in (output.stats | ratio_stats(output.ratios)).items()}
    # the other trainer averages over cells of one row each, some of them over pads too
    ratio = (new - old).exp()
    surrogate, binds = clipped_surrogate(ratio, advantages, clip_low=0.2, clip_high=0.2, dual_clip=None)
    rows = range(len(mask))
    return {
        "objective/kl": masked_sum(old - ref, mask, dim=1).mean(),
        "objective/entropy(TRL<=snapshot,sentinel leak)": (-old).sum(dim=1).mean(),
        "objective/entropy(masked, TRL PR #6121)": masked_sum(-old, mask, dim=1).mean(),
        "objective/non_score_reward": non_score,
        "objective/scores": scores,
        "objective/rlhf_reward": scores + non_score,
        "policy/approxkl_avg": ((new - old) ** 2 / 2).mean(),
        "policy/clipfrac_avg": f64([masked_mean(binds[i].double(), mask[i]) for i in rows]).mean(),
        "loss/policy_avg": f64([masked_mean(surrogate[i], mask[i]) for i in rows]).mean(),
        "val/ratio": ratio.mean(),
        "val/ratio_var": ratio.mean(dim=1).var(),
        "RECOMMENDED policy/approxkl token-masked": stats["policy/approxkl_avg"],
        "RECOMMENDED loss/policy global token-mean": stats["loss/policy_avg"],
        "RECOMMENDED policy/clipfrac global token-mean": stats["policy/clipfrac_avg"],
        "RECOMMENDED val/ratio token-masked": stats["val/ratio"],
        "RECOMMENDED val/ratio_var over tokens": stats["val/ratio_var"],
    }


def aggregated(loss: Tensor, mask: Tensor, form: LossForm) -> Tensor:
    weights, row_counts = aggregation_weights(mask, form=form, norm_length=4)
    return (weights * loss).sum() / row_counts.sum()


def compute_loss_aggregation(name: str, given: Numbers) -> Numbers:
    if name == "dp2_or_grad_accum_equivalence":
        ranks = [f64(given["rank0"]), f64(given["rank1"])]
        counts = [aggregation_weights(torch.ones(1, len(x)), form=LossForm.TOKEN_MEAN, norm_length=1)[1] for x in ranks]
        divisor = torch.cat(counts).sum()
        per_rank = [float(x.sum() / divisor * len(ranks)) for x in ranks]
        return {
            "global_token_mean": sum(x.sum() for x in ranks) / divisor,
            "naive_mean_of_rank_means": sum(x.mean() for x in ranks) / 2,
            "per_rank_loss_with_global_denominator_times_dp": per_rank,
        }
    loss, mask = f64(given["loss"]), f64(given["mask"])
    return {
        "token-mean": aggregated(loss, mask, LossForm.TOKEN_MEAN),
        "seq-mean-token-sum": aggregated(loss, mask, LossForm.SEQUENCE_MEAN_TOKEN_SUM),
        "seq-mean-token-mean": aggregated(loss, mask, LossForm.SEQUENCE_MEAN_TOKEN_MEAN),
        "seq-mean-token-sum-norm(L=4)": aggregated(loss, mask, LossForm.TOKEN_SUM_NORM),
    }


def compute_reward_model(name: str, given: Numbers) -> Numbers:
    if name == "bradley_terry":
        scores = torch.stack([f64(given["chosen"]), f64(given["rejected"])], dim=1).flatten()
        outputs = ValueOutputs(values=torch.zeros(0), scores=scores)
        labels = f64([1.0, 0.0] * len(given["chosen"]))
        output = BradleyTerryLoss(group_size=2)(outputs, PreferenceTargets(labels=labels))
        assert output.stats["reward_model/loss"].value == pytest.approx(float(output.loss_sum / 3))
        return {
            "loss": output.loss_sum / len(given["chosen"]),
            "accuracy_strict": output.stats["reward_model/accuracy"].value,
        }
    if name == "head_init_std":
        return {"std": [reward_scale.head_init_std(size) for size in given["hidden"]]}
    scores = f64(given["scores_on_reference_summaries"])
    shift, (gain, bias) = reward_scale.mean_shift(scores), reward_scale.gain_and_bias(scores)
    return {
        "bias_only_shift": shift,
        "after_bias_only": scores - shift,
        "gain": gain,
        "bias": bias,
        "after_gain_bias": gain * scores + bias,
    }


def compute_adam(name: str, given: Numbers) -> Numbers:
    parameter = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.AdamW([parameter], lr=given["lr"], eps=given["eps"], weight_decay=0.0)
    ours, before = [], 0.0
    for _ in range(3):
        parameter.grad = torch.full_like(parameter, given["grad"])
        optimizer.step()
        ours.append(float(parameter.detach()) - before)
        before = float(parameter.detach())
    # TensorFlow 1: epsilon stands outside the bias correction
    theirs, first, second = [], 0.0, 0.0
    for step in range(1, 4):
        first = 0.9 * first + 0.1 * given["grad"]
        second = 0.999 * second + 0.001 * given["grad"] ** 2
        rate = given["lr"] * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        theirs.append(-rate * first / (math.sqrt(second) + given["eps"]))
    return {"pytorch_updates": ours, "tf1_updates": theirs, "first_step_ratio": ours[0] / theirs[0]}


COMPUTED: dict[str, Callable[[str, Numbers], Numbers]] = {
    "temperature": compute_temperature,
    "entropy": compute_entropy,
    "ppo_clip_loss": compute_ppo_clip_loss,
    "value_clip_loss": compute_value_clip_loss,
    "trl_metrics": compute_trl_metrics,
    "loss_aggregation": compute_loss_aggregation,
    "reward_model": compute_reward_model,
    "adam": compute_adam,
}


@pytest.mark.parametrize(
    ("group", "case"), cases_of(LOSS_GROUPS), ids=lambda part: part if isinstance(part, str) else part["name"]
)
def test_loss_oracle(group: str, case: Numbers) -> None:
    assert_matches(COMPUTED[group](case["name"], case["inputs"]), case["expected"])


def test_mean_of_rank_means_is_not_the_token_mean() -> None:
    means = expected_of("loss_aggregation", "dp2_or_grad_accum_equivalence")
    assert means["global_token_mean"] == 4.0
    assert means["naive_mean_of_rank_means"] == 6.25


def test_pads_dilute_other_trainers_metrics_but_not_ours() -> None:
    values = expected_of("trl_metrics", "2x5_rollout_micro_batch_1")
    for ours, theirs in (
        ("RECOMMENDED policy/approxkl token-masked", "policy/approxkl_avg"),
        ("RECOMMENDED loss/policy global token-mean", "loss/policy_avg"),
        ("RECOMMENDED val/ratio token-masked", "val/ratio"),
        ("RECOMMENDED val/ratio_var over tokens", "val/ratio_var"),
        ("objective/entropy(masked, TRL PR #6121)", "objective/entropy(TRL<=snapshot,sentinel leak)"),
    ):
        assert values[ours] != pytest.approx(values[theirs], rel=1e-3)
