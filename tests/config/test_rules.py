"""Combinations: each case is the default config with a few values changed."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rlhf_ray.config.derived import gold_scorer, stages_to_run
from rlhf_ray.config.rules import problems
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import walk

PPO_ONLY = {"stages": ["ppo"], "model.path": "m", "reward.path": "r"}
ON_GPU = {f"placement.{role}.num_gpus": 0.2 for role in ("policy", "critic", "generator", "reference", "reward")}


def config_with(changes: dict[str, Any]) -> TrainConfig:
    node = OmegaConf.structured(TrainConfig)
    for key, value in changes.items():
        OmegaConf.update(node, key, value)
    config = OmegaConf.to_object(node)
    assert isinstance(config, TrainConfig)
    return config


@pytest.mark.parametrize("key", ["placement.address", "model.path", "tracking.entity"])
def test_what_would_be_recorded_may_hold_no_password_and_the_message_has_none(key):
    (found,) = [line for line in problems(config_with({key: "ray://ann:s3cret@head:10001"})) if "password" in line]
    assert found == f"{key}: a URL with a user or a password would be recorded; accepted is one without"
    assert not any("password" in line for line in problems(config_with({key: "ray://head:10001"})))


def test_no_setting_is_there_to_hold_a_secret():
    secret = re.compile(r"(^|_)(token|secret|password|passwd|key|credentials?)$")
    assert [item.key for item in walk(TrainConfig()) if secret.search(item.key.rpartition(".")[2])] == []


REFUSED = [
    ({"stages": []}, ["stages=[]", "at least one of"]),
    ({"stages": ["ppo", "sft", "reward_model"]}, ["in the order [sft,reward_model,ppo]"]),
    ({"stages": ["sft", "sft"]}, ["each stage once", "[sft]"]),
    ({"stages": ["reward_model", "ppo"]}, ["random model", "model.path=DIR"]),
    ({"stages": ["sft", "ppo"]}, ["ppo needs a reward model", "reward.path=DIR"]),
    ({"data.prompts": "p", "reward.gold": "reviews"}, ["data.demonstrations=FILE"]),
    ({"data.prompts": "p", "data.demonstrations": "d"}, ["nothing to learn from", "reward.gold=auto"]),
    ({"reward.gold": "none"}, ["data.preferences=FILE", "reward.gold=none"]),
    ({"data.demonstrations": "d"}, ["data.demonstrations is your own", "data.prompts=FILE"]),
    ({"sft.batch_size": 10001}, ["sft.batch_size=10001", "data.num_demonstrations=10000"]),
    ({"reward_model.num_prompts": 4000}, ["reward_model.num_prompts=4000", "data.num_prompts=3840"]),
    ({"algorithm.batch_size": 3841}, ["algorithm.batch_size=3841", "data.num_prompts=3840"]),
    ({"evaluation.num_prompts": 600}, ["evaluation.num_prompts=600", "data.num_held_out=512"]),
    ({"algorithm.batch_size": 10, "algorithm.minibatches": 4}, ["minibatches=4", "10 answers", "use 1, 2, 5"]),
    ({"algorithm.minibatches": 3, "algorithm.samples_per_prompt": 2}, ["128 answers", "use 1, 2, 4"]),
    ({"generator.num_replicas": 65}, ["generator.num_replicas=65", "use at most 64"]),
    ({"algorithm.rollout_correction_low": 2.0}, ["rollout_correction_low=2", "rollout_correction_high=2"]),
    ({"algorithm.warmup_iterations": 20}, ["algorithm.warmup_iterations=20", "less than algorithm.num_iterations=20"]),
    ({"sft.warmup_steps": 200}, ["sft.warmup_steps=200", "sft.num_steps=200"]),
    ({"algorithm.reference": False}, ["algorithm.kl_coef=0.05", "algorithm.reference=false"]),
    ({"algorithm.kl_target": 6.0, "algorithm.kl_placement": "loss"}, ["kl_target=6", "kl_placement=loss"]),
    ({"algorithm.kl_target": 6.0, "algorithm.kl_coef": 0.0}, ["kl_target=6", "above 0"]),
    ({"learner.micro_batch_tokens": 300}, ["micro_batch_tokens=300", "4 answers", "raise it to 320"]),
    ({"learner.micro_batch_tokens": 79}, ["micro_batch_tokens=79", "max_prompt_tokens=32", "max_new_tokens=48 = 80"]),
    ({"model.context_length": 79}, ["context_length=79", "max_prompt_tokens=32", "max_new_tokens=48 = 80"]),
    ({"model.hidden_size": 130}, ["model.hidden_size=130", "model.num_heads=4", "use model.hidden_size=136"]),
    ({"generator.backend": "hf", "generator.transport": "nccl"}, ["transport=nccl", "generator.backend=vllm"]),
    (
        {"doctor.rollback": ["nonfinite", "runaway_kl"]},
        ["doctor.stop and doctor.rollback both name nonfinite", "set doctor.stop=[]"],
    ),
    ({"doctor.adapt": ["stale_generator"]}, ["doctor.adapt=[stale_generator]", "a list of runaway_kl"]),
    ({"doctor.early_stop": ["sft_overfit"]}, ["doctor.early_stop=[sft_overfit]"]),
    ({"generator.transport": "ipc"}, ["generator.transport=ipc", "learner.device=cuda", "object_store"]),
    (
        {"generator.backend": "hf", "generator.tensor_parallel_size": 2, "placement.generator.num_gpus": 2},
        ["tensor_parallel_size=2", "backend=vllm"],
    ),
    ({"generator.tensor_parallel_size": 2, "placement.generator.num_gpus": 2}, ["transport=object_store", "nccl"]),
    ({"placement.backend": "local", "placement.address": "auto"}, ["address=auto", "placement.backend=local"]),
    ({"learner.device": "cuda"}, ["placement.policy.num_gpus=0", "placement.reward.num_gpus=0", "placement=ray_gpu"]),
    ({"evaluation.num_shown": 300}, ["evaluation.num_shown=300", "evaluation.num_prompts=256"]),
    ({"learner.adam_beta1": 1.0}, ["learner.adam_beta1=1.0", "at most 0.9999"]),
]

ACCEPTED = [
    {},
    {"stages": ["sft"]},
    {"stages": ["sft"], "data.prompts": "p", "data.demonstrations": "d"},
    PPO_ONLY,
    PPO_ONLY | {"data.prompts": "p"},
    PPO_ONLY | {"model.context_length": 8},
    {"stages": ["reward_model"], "model.path": "m", "data.preferences": "q"},
    {"stages": ["reward_model"], "model.path": "m", "data.prompts": "p", "data.preferences": "q"},
    {"reward.path": "r", "reward.gold": "none"},
    {"algorithm.reference": False, "algorithm.kl_coef": 0.0},
    {"placement.backend": "local"},
    {"placement.backend": "local", "learner.device": "cuda"},
    {"learner.device": "cuda", "generator.transport": "ipc", **ON_GPU},
    {"learner.device": "cuda", "generator.transport": "nccl", "generator.tensor_parallel_size": 2}
    | ON_GPU
    | {"placement.generator.num_gpus": 2},
]


@pytest.mark.parametrize(("changes", "told"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_an_impossible_combination_is_told_once_with_its_keys(changes, told):
    (message,) = problems(config_with(changes))
    assert [part for part in told if part not in message] == []


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_a_possible_combination_is_accepted(changes):
    assert problems(config_with(changes)) == []


def test_a_stage_whose_result_is_given_is_not_run():
    assert stages_to_run(config_with({"reward.path": "r"})) == ("sft", "ppo")


def test_gold_scores_come_with_the_built_in_reviews_or_on_demand():
    assert gold_scorer(config_with({})) == "reviews"
    assert gold_scorer(config_with({"data.built_in": "sentences"})) == "sentences"
    assert gold_scorer(config_with({"data.prompts": "p"})) is None
    assert gold_scorer(config_with({"data.prompts": "p", "reward.gold": "reviews"})) == "reviews"
    assert gold_scorer(config_with({"reward.gold": "none"})) is None


NUMBERS = [setting.key for setting in walk(TrainConfig()) if setting.kind == "int"]


@given(st.dictionaries(st.sampled_from(NUMBERS), st.integers(-3, 3), max_size=8))
def test_rules_tell_about_any_numbers_and_never_fail(changes):
    config = config_with(changes)
    by_range = {key for key, value in changes.items() if value < 0}
    assert all(any(message.startswith(f"{key}=") for message in problems(config)) for key in by_range)


def test_problems_do_not_depend_on_the_run_directory():
    config = config_with({"algorithm.clip": -1.0})
    assert problems(replace(config, run_dir="/elsewhere")) == problems(config)
