"""What trackers show of a run's settings at the top."""

import json
from dataclasses import replace

import numpy as np
from safetensors.numpy import save_file

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.pipeline.tracker_settings import architecture, tracked_settings, wandb_settings


def test_every_stage_shows_its_own_rate_and_sizes():
    config = TrainConfig()
    config = replace(
        config,
        seed=3,
        learning_rate=1e-3,
        model=replace(config.model, new="smollm2"),
        sft=replace(config.sft, learning_rate=2e-3, batch_size=6, num_steps=50),
        reward_model=replace(config.reward_model, learning_rate=None, batch_size=5, epochs=2),
        algorithm=replace(
            config.algorithm,
            learning_rate=3e-3,
            batch_size=8,
            samples_per_prompt=3,
            minibatches=4,
            epochs=5,
            kl_coef=0.07,
        ),
    )
    common = {"seed": 3, "model": "smollm2"}
    assert tracked_settings(config, "sft") == common | {
        "learning_rate": 2e-3,
        "batch_size": 6,
        "minibatch_size": 6,
        "steps": 50,
    }
    assert tracked_settings(config, "reward_model") == common | {
        "learning_rate": 1e-3,
        "batch_size": 5,
        "minibatch_size": 5,
        "epochs": 2,
    }
    assert tracked_settings(config, "ppo") == common | {
        "learning_rate": 3e-3,
        "batch_size": 24,
        "minibatch_size": 6,
        "epochs": 5,
        "beta": 0.07,
    }


def test_online_and_offline_are_told_apart():
    config = TrainConfig()
    for backend, online in (("wandb", True), ("wandb_offline", False)):
        tracking = replace(config.tracking, backend=backend)
        assert wandb_settings(replace(config, tracking=tracking), sweep_id=None).online is online


def test_the_architecture_is_read_from_the_model_that_a_stage_starts_from(tmp_path):
    settings = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4, "vocab_size": 10, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": 32}))
    weights = {"model.embed_tokens.weight": np.zeros((10, 4)), "model.norm.weight": np.zeros(4)}
    save_file(weights, tmp_path / "model.safetensors")
    assert architecture(tmp_path, "reward_model") == {
        "kind": "LlamaForCausalLM",
        "output": "a score at the last token",
        "parameters": 44,
        "hidden_size": 4,
        "vocab_size": 10,
        "context_length": 32,
    }
    assert architecture(tmp_path, "ppo")["output"] == "the next token"
