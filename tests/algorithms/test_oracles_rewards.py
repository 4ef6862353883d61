"""Rewards, advantages and statistics against oracles.json. What is not part of the program is a slow loop here.

A function makes all expected numbers of its group; known mistakes (TRAP, wrong) are made as the mistake is made, and
the last tests hold the right value against them.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from oracles import REWARD_GROUPS, Numbers, assert_matches, cases_of, expected_of, f64, inputs_of

from rlhf_ray.algorithms import group_advantages, overoptimization
from rlhf_ray.algorithms.corrections import (
    effective_sample_share,
    icepop,
    mismatch_kl,
    sequence_geometric_mean,
    sequence_weights,
    tis_sequence,
    tis_token,
    token_weights,
)
from rlhf_ray.algorithms.gae import gae
from rlhf_ray.algorithms.kl import KlEstimator, adapted_kl_coef, token_kl
from rlhf_ray.algorithms.masking import (
    masked_mean,
    masked_sum,
    masked_whiten,
    position_ids,
    response_lengths,
    truncate_after_first_eos,
)
from rlhf_ray.algorithms.schedules import ScheduleKind, learning_rate
from rlhf_ray.algorithms.shaping import (
    MissingEos,
    ScoreSlot,
    apply_missing_eos,
    mask_to_score,
    score_slots,
    shape_rewards,
)
from rlhf_ray.algorithms.statistics import explained_variance


def slot_of(name: str) -> ScoreSlot:
    return ScoreSlot.AFTER_EOS if "plus_1" in name else ScoreSlot.EOS


def compute_gae(name: str, given: Numbers) -> Numbers:
    rewards, numbers = f64(given["rewards"]), {"gamma": given["gamma"], "lam": given["lam"]}
    if rewards.dim() == 1:
        mask = torch.ones(1, len(rewards), dtype=torch.bool)
        advantages, returns = gae(rewards[None], f64(given["values"])[None], mask, **numbers)
        return {"advantages": advantages[0], "returns": returns[0]}
    mask = f64(given["mask"]).bool()
    full = mask_to_score(mask, slot=slot_of(name))
    assert full.equal(f64(given.get("mask_p1", given["mask"])).bool())
    advantages, returns = gae(rewards, f64(given["values_raw"]), full, **numbers)
    return {
        "advantages_masked": advantages * mask,
        "returns_masked_p1" if "plus_1" in name else "returns_masked": returns,
        "advantages_whitened_unbiased": masked_whiten(advantages, mask, shift_mean=True, unbiased=True),
        "advantages_whitened_biased": masked_whiten(advantages, mask, shift_mean=True),
    }


def compute_kl_reward(name: str, given: Numbers) -> Numbers:
    kl = f64(given["kl"])
    mask = torch.arange(kl.shape[1]) <= torch.tensor(given["last_token_index"])[:, None]
    shaped = shape_rewards(kl, f64(given["score"]), mask, kl_coef=given["beta"], score_slot=slot_of(name))
    return {"rewards": shaped.rewards, "non_score_reward": shaped.non_score}


def compute_masked_whiten(name: str, given: Numbers) -> Numbers:
    if name == "distributed_2_ranks":
        both = f64(given["rank0_values"] + given["rank1_values"])
        whitened = masked_whiten(both, torch.ones(4), shift_mean=True, eps=given["eps"])
        local = masked_whiten(both[:3], torch.ones(3), shift_mean=True, eps=given["eps"])
        return {
            "global_biased": whitened,
            "wrong_local_rank0_biased": local,
            "global_mean": both.mean(),
            "global_var_biased": both.var(correction=0),
        }
    values, mask = f64(given["values"]), f64(given["mask"])
    choices = {name: given[name] for name in ("shift_mean", "unbiased", "eps")}
    whitened = masked_whiten(values, mask, **choices)
    if name.startswith("blog"):
        return {"whitened": whitened}
    mean = masked_mean(values, mask)
    variance = masked_sum((values - mean) ** 2, mask) / (mask.sum() - int(given["unbiased"]))
    return {"whitened_masked": whitened, "mean": mean, "var": variance}


def compute_eos_truncate(name: str, given: Numbers) -> Numbers:
    tokens, eos, pad = torch.tensor(given["responses"]), given["eos"], given["pad"]
    truncated = truncate_after_first_eos(tokens, eos_token_ids=[eos], pad_token_id=pad)
    lengths, contains_eos = response_lengths(tokens, eos_token_ids=[eos])
    if name.startswith("TRAP"):
        padded = [[*row.tolist(), pad] for row in truncated]
        return {
            "postprocessed": truncated,
            "last_token_index_by_first_pad_minus_1": [row.index(pad) - 1 for row in padded],
        }
    return {
        "postprocessed": truncated,
        "last_token_index": lengths - 1,
        "contains_eos": contains_eos,
        "score_slot_p1": score_slots(lengths, width=tokens.shape[1], slot=ScoreSlot.AFTER_EOS),
        "num_eos_raw": (tokens == eos).sum(),
        "num_eos_after_truncation": contains_eos.sum(),
    }


def compute_eos_penalty(name: str, given: Numbers) -> Numbers:
    scores, finished = f64(given["scores"]), torch.tensor(given["contains_eos"])
    value = -given["penalty"]
    return {
        "replace_with_minus_1": apply_missing_eos(scores, finished, rule=MissingEos.REPLACE, value=value),
        "subtract_1": apply_missing_eos(scores, finished, rule=MissingEos.SUBTRACT, value=value),
    }


def compute_position_ids(name: str, given: Numbers) -> Numbers:
    # the fixture marks pads by id; the program's masks come from lengths
    mask = torch.tensor(given["tokens"]) != given["pad"]
    return {"attention_mask": mask, "position_ids": position_ids(mask)}


def compute_adaptive_kl(name: str, given: Numbers) -> Numbers:
    def run(kls: list[float]) -> list[float]:
        coef, coefs = given["init"], []
        for kl in kls:
            coef = adapted_kl_coef(
                coef,
                sequence_kl=kl,
                target=given["target"],
                horizon=given["horizon"],
                num_episodes=given["n_steps"],
            )
            coefs.append(coef)
        return coefs

    coefs = run(given["kls"])
    if name.startswith("TRAP"):
        return {"beta_after_each": coefs, "correct_if_sum_kl_12": run([kl * 53 for kl in given["kls"]])}
    one = {"target": given["target"], "horizon": given["horizon"], "num_episodes": given["n_steps"]}
    return {
        "beta_after_each": coefs,
        "max_step_multiplier": adapted_kl_coef(1.0, sequence_kl=1e9, **one),
        "min_step_multiplier": adapted_kl_coef(1.0, sequence_kl=-1e9, **one),
    }


def compute_kl_estimators(name: str, given: Numbers) -> Numbers:
    if name == "per_token":
        logp, ref, numbers = f64(given["logp"]).requires_grad_(), f64(given["ref_logp"]), {}
        for kind in KlEstimator:
            estimate = token_kl(logp, ref, estimator=kind)
            (gradient,) = torch.autograd.grad(estimate.sum(), logp)
            numbers |= {kind: estimate, f"mean_{kind}": estimate.mean(), f"grad_{kind}_wrt_logp": gradient}
        return numbers
    p, q = f64(given["p"]), f64(given["q"])
    k1, k2, k3 = (token_kl(p.log(), q.log(), estimator=kind) for kind in KlEstimator)
    expected = {f"E_k{i}": (p * k).sum() for i, k in enumerate((k1, k2, k3), start=1)}
    return expected | {
        "kl_p_q": (p * (p / q).log()).sum(),
        "var_k1": (p * k1**2).sum() - expected["E_k1"] ** 2,
        "var_k3": (p * k3**2).sum() - expected["E_k3"] ** 2,
        "kl_q_p": (q * (q / p).log()).sum(),
    }


def compute_group_advantages(name: str, given: Numbers) -> Numbers:
    rewards = f64(given["rewards"])
    if name == "reinforce_plus_plus_tokens":
        mask = f64(given["mask"])
        both = [
            group_advantages.reinforce_plus_plus(rewards, mask, gamma=given["gamma"], unbiased=unbiased)
            for unbiased in (False, True)
        ]
        return {"returns_masked": both[0][1], "advantages_biased": both[0][0], "advantages_unbiased": both[1][0]}
    tokens = group_advantages.reinforce_plus_plus_baseline(rewards, torch.ones(rewards.numel(), 3))
    return {
        "grpo_std_ddof1_eps1e6": group_advantages.grpo(rewards),
        "grpo_std_ddof1_eps1e4": group_advantages.grpo(rewards, eps=1e-4),
        "grpo_std_ddof0_eps1e6": group_advantages.grpo(rewards, unbiased=False),
        "dr_grpo": group_advantages.dr_grpo(rewards),
        "rloo": group_advantages.rloo(rewards),
        "reinforce_pp_baseline_equal_length_biased": tokens[:, 0].reshape(rewards.shape),
    }


def compute_rollout_correction(name: str, given: Numbers) -> Numbers:
    log_ratio, mask, cap = f64(given["trainer_old_logp"]) - f64(given["rollout_logp"]), f64(given["mask"]), given["cap"]
    weights = token_weights(log_ratio, mask)
    return {
        "raw_weight": weights,
        "tis_token": tis_token(log_ratio, mask, cap=cap),
        "icepop_0p5_2": icepop(log_ratio, mask, low=0.5, high=2.0),
        "seq_weight": sequence_weights(log_ratio, mask),
        "seq_tis": tis_sequence(log_ratio, mask, cap=cap),
        "seq_geo_mean": sequence_geometric_mean(log_ratio, mask),
        "kl_k1_rollout_trainer": masked_mean(-log_ratio, mask),
        "k3": mismatch_kl(log_ratio, mask),
        "chi2_token": masked_mean(weights**2, mask) - 1,
        "ess_verl": effective_sample_share(log_ratio, mask, cap=cap),
        "mult_prob_error_nemo": masked_mean(log_ratio.abs().exp(), mask),
    }


def compute_explained_variance(name: str, given: Numbers) -> Numbers:
    values, returns = np.array(given["values"], dtype=float), np.array(given["returns"], dtype=float)
    variance = returns.var(ddof=1)
    return {
        "ev_var_ratio": explained_variance(f64(given["values"]), f64(given["returns"])),
        # other trainers' forms, which this program does not offer
        "ev_mse_old_trl": 1 - ((values - returns) ** 2).mean() / variance if variance else None,
        "ev_verl_eps": 1 - (returns - values).var(ddof=1) / (returns.var(ddof=1) + 1e-5),
    }


def compute_gao_overopt(name: str, given: Numbers) -> Numbers:
    if name == "best_of_n_kl":
        return {"kl": [overoptimization.best_of_n_kl(n) for n in given["n"]]}
    if name == "bon_form":
        distance, peak = overoptimization.best_of_n_peak(**given)
        assert overoptimization.best_of_n_gold_reward(distance, **given) == pytest.approx(peak)
        return {"d_star": distance, "R_star": peak}
    distance, peak = overoptimization.rl_peak(**given)
    crossing = math.exp(given["alpha"] / given["beta"])
    assert overoptimization.rl_gold_reward(crossing, **given) == pytest.approx(0.0, abs=1e-12)
    return {
        "d_star": distance,
        "kl_star": distance**2,
        "R_star": peak,
        "d_zero_crossing": crossing,
        "R_at_d": [[d, overoptimization.rl_gold_reward(d, **given)] for d in (1.0, 3.0, distance, 20.0)],
    }


def compute_lr_schedule(name: str, given: Numbers) -> Numbers:
    num_steps = given["num_updates"]
    rates = [
        learning_rate(ScheduleKind.LINEAR, step=step, num_steps=num_steps, base=given["lr"], warmup=0)
        for step in range(1, num_steps + 1)
    ]
    return {"lr_at_update": rates}


COMPUTED: dict[str, Callable[[str, Numbers], Numbers]] = {
    "gae": compute_gae,
    "kl_reward": compute_kl_reward,
    "masked_whiten": compute_masked_whiten,
    "eos_truncate": compute_eos_truncate,
    "eos_penalty": compute_eos_penalty,
    "position_ids": compute_position_ids,
    "adaptive_kl": compute_adaptive_kl,
    "kl_estimators": compute_kl_estimators,
    "group_advantages": compute_group_advantages,
    "rollout_correction": compute_rollout_correction,
    "explained_variance": compute_explained_variance,
    "gao_overopt": compute_gao_overopt,
    "lr_schedule": compute_lr_schedule,
}


@pytest.mark.parametrize(
    ("group", "case"), cases_of(REWARD_GROUPS), ids=lambda part: part if isinstance(part, str) else part["name"]
)
def test_reward_oracle(group: str, case: Numbers) -> None:
    assert_matches(COMPUTED[group](case["name"], case["inputs"]), case["expected"])


def test_known_mistakes_differ_from_the_right_values() -> None:
    eos = expected_of("eos_truncate", "TRAP_pad_equals_eos")["last_token_index_by_first_pad_minus_1"]
    assert eos == [1, 4, -1, 3] != expected_of("eos_truncate", "pad_distinct_from_eos")["last_token_index"]
    kl = expected_of("adaptive_kl", "TRAP_feeding_per_token_mean")
    assert all(wrong < 0.15 < right for wrong, right in zip(*kl.values(), strict=True))
    whitened = expected_of("masked_whiten", "distributed_2_ranks")
    assert whitened["global_biased"][:3] != pytest.approx(whitened["wrong_local_rank0_biased"], abs=0.1)


def test_last_token_with_pad_equal_to_eos_is_the_eos() -> None:
    given = inputs_of("eos_truncate", "TRAP_pad_equals_eos")
    lengths, _ = response_lengths(torch.tensor(given["responses"]), eos_token_ids=[given["eos"]])
    assert (lengths - 1).tolist() == [2, 4, 0, 4]
