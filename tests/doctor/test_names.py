"""Columns of other trainers, of people, and those a user explains."""

import pytest

from rlhf_ray.doctor.names import generic_stage, is_ours, our_names, parse_map, step_column, take, words
from rlhf_ray.doctor.names_table import ALSO_OURS, BY_HAND, FAMILIES, FOREIGN, GENERIC, TRAINERS
from rlhf_ray.errors import ConfigError
from rlhf_ray.tracking.registry import check_names


def taken(*columns: str) -> dict[str, str]:
    return {theirs: what.ours for theirs, what in take(columns, {}).items()}


def origins(*columns: str) -> set[str]:
    return {what.origin for what in take(columns, {}).values()}


def test_openrlhf_logs_its_kl_per_token() -> None:
    columns = (
        "train/policy_loss",
        "train/critic_loss",
        "train/kl",
        "train/reward",
        "train/response_length",
        "train/ppo_clip_ratio",
        "train/actor_lr",
        "train/vllm_kl",
        "timing/step_total",
    )
    assert taken(*columns) == {
        "train/policy_loss": "loss/policy_avg",
        "train/critic_loss": "loss/value_avg",
        "train/kl": "loss/kl_avg",
        "train/reward": "objective/scores",
        "train/response_length": "response/length_mean",
        "train/ppo_clip_ratio": "policy/clipfrac_avg",
        "train/actor_lr": "lr",
        "train/vllm_kl": "rollout/kl_mismatch",
        "timing/step_total": "time/iteration",
    }
    assert origins(*columns) == {"OpenRLHF"}


def test_verl() -> None:
    columns = (
        "actor/pg_loss",
        "actor/pg_clipfrac",
        "actor/ppo_kl",
        "actor/kl_loss",
        "actor/entropy",
        "critic/vf_loss",
        "critic/vf_explained_var",
        "critic/score/mean",
        "critic/rewards/mean",
        "response_length/mean",
        "timing_s/step",
        "val-core/gsm8k/reward/mean@1",
    )
    assert taken(*columns) == {
        "actor/pg_loss": "loss/policy_avg",
        "actor/pg_clipfrac": "policy/clipfrac_avg",
        "actor/ppo_kl": "policy/approxkl_avg",
        "actor/kl_loss": "loss/kl_avg",
        "actor/entropy": "policy/entropy_avg",
        "critic/vf_loss": "loss/value_avg",
        "critic/vf_explained_var": "val/explained_variance",
        "critic/score/mean": "objective/scores",
        "critic/rewards/mean": "objective/rlhf_reward",
        "response_length/mean": "response/length_mean",
        "timing_s/step": "time/iteration",
        "val-core/gsm8k/reward/mean@1": "eval/gold_score",
    }


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_trl_uses_our_names_with_or_without_a_prefix(prefix: str) -> None:
    names = ("objective/kl", "objective/scores", "policy/clipfrac_avg", "val/ratio", "lr")
    assert taken(*(prefix + name for name in names)) == {prefix + name: name for name in names}


@pytest.mark.parametrize(
    ("trainer", "columns"),
    [
        ("TRL before 0.12", ("ppo/mean_scores", "ppo/loss/value", "ppo/val/var_explained")),
        ("NeMo-RL", ("train/probs_ratio", "train/gen_kl_error", "train/kl_penalty")),
        ("SkyRL", ("policy/policy_loss", "loss/avg_kl", "reward/avg_raw_reward")),
        ("slime", ("train/pg_clipfrac", "rollout/raw_reward", "rollout/response_len/mean")),
        ("TRL GRPO", ("completions/mean_length", "kl", "reward", "rewards/length/mean")),
    ],
)
def test_other_trainers_are_recognised(trainer: str, columns: tuple[str, ...]) -> None:
    assert len(taken(*columns)) == len(columns)
    assert trainer in origins(*columns)


def test_a_persons_words() -> None:
    assert taken("Mean Reward", "KL Divergence", "Policy Loss", "Value Loss", "Evaluation Score") == {
        "Mean Reward": "objective/scores",
        "KL Divergence": "objective/kl",
        "Policy Loss": "loss/policy_avg",
        "Value Loss": "loss/value_avg",
        "Evaluation Score": "eval/gold_score",
    }


def test_a_persons_kl_beside_a_reward_is_not_taken_for_a_trainers() -> None:
    assert taken("reward", "kl", "policy_loss") == {
        "reward": "objective/scores",
        "kl": "objective/kl",
        "policy_loss": "loss/policy_avg",
    }


def test_exports_name_the_run_before_the_metric() -> None:
    assert taken("happy-run-7 - objective/kl") == {"happy-run-7 - objective/kl": "objective/kl"}


def test_the_better_known_of_two_columns_is_taken() -> None:
    assert taken("KL", "objective/kl") == {"objective/kl": "objective/kl"}


@pytest.mark.parametrize(
    ("columns", "stage"),
    [
        (("loss", "grad_norm", "eval_loss"), "sft"),
        (("loss", "accuracy", "margin", "mean_reward"), "reward_model"),
        (("loss", "rewards/chosen", "rewards/margins"), "dpo"),
        (("loss", "kl", "reward"), "ppo"),
    ],
)
def test_the_stage_of_a_bare_loss_is_told_by_what_is_beside_it(columns: tuple[str, ...], stage: str) -> None:
    assert generic_stage(columns) == stage
    assert taken(*columns)["loss"] == GENERIC[stage]["loss"]


def test_a_map_wins_and_a_wrong_one_is_refused() -> None:
    given = parse_map(["Judge=eval/gold_score", "T=step"])
    assert given == {"Judge": "eval/gold_score", "T": "step"}
    assert take(["Judge", "Evaluation Score"], {"Judge": "eval/gold_score"})["Judge"].origin == "--map"
    with pytest.raises(ConfigError, match="accepted is THEIRS=OURS"):
        parse_map(["Judge"])
    with pytest.raises(ConfigError, match="nonsense is read by no check; known are step, "):
        parse_map(["Judge=nonsense"])
    with pytest.raises(ConfigError, match="no such column; there are KL"):
        take(["KL"], {"Judge": "eval/gold_score"})


def test_the_step_column_is_the_one_that_nearly_every_row_has() -> None:
    assert step_column({"_step": 100, "global_step": 20, "loss": 100}, {}, 100) == "_step"
    assert step_column({"Step": 100, "_step": 100}, {}, 100) == "Step"
    assert step_column({"T": 100, "step": 100}, {"T": "step"}, 100) == "T"
    assert step_column({"loss": 100}, {}, 100) is None


def test_words_leave_units_and_punctuation_out() -> None:
    assert words("KL_Divergence (nats)") == "kl divergence"


def test_every_name_that_is_read_is_ours_or_known_to_be_foreign() -> None:
    tables = [*TRAINERS.values(), BY_HAND, *GENERIC.values()]
    targets = {ours for table in tables for ours in table.values()}
    plain = {name for name in our_names() | targets | set(ALSO_OURS) if not name.startswith(FAMILIES)} - set(FOREIGN)
    check_names(plain)


def test_every_target_of_a_table_is_read_by_something() -> None:
    targets = {ours for table in (*TRAINERS.values(), BY_HAND) for ours in table.values()}
    helpful = {"policy/clipfrac_low_avg"}  # shown among the columns only
    assert {name for name in targets if not is_ours(name)} <= helpful
