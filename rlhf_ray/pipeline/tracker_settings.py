"""From the configuration to what trackers take."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.tracking.wandb_id import WandbSettings


def wandb_settings(config: TrainConfig, *, sweep_id: str | None) -> WandbSettings:
    """Weights & Biases."""
    tracking = config.tracking
    return WandbSettings(
        online=tracking.backend == "wandb",
        project=tracking.project,
        entity=tracking.entity,
        upload_models=tracking.upload_models,
        patience_s=tracking.patience_s,
        sweep_id=sweep_id,
    )


def tracked_settings(config: TrainConfig, stage: str) -> dict[str, Any]:
    """What runs of a stage are mostly compared by, in the units of the stage."""
    common = {
        "seed": config.seed,
        "model": config.model.path or config.model.new,
        "learning_rate": rate_of(config, stage),
    }
    match stage:
        case "sft":
            sft = config.sft
            return common | {"batch_size": sft.batch_size, "minibatch_size": sft.batch_size, "steps": sft.num_steps}
        case "reward_model":
            model = config.reward_model
            return common | {"batch_size": model.batch_size, "minibatch_size": model.batch_size, "epochs": model.epochs}
        case _:
            algorithm = config.algorithm
            batch_size = algorithm.batch_size * algorithm.samples_per_prompt
            return common | {
                "batch_size": batch_size,
                "minibatch_size": batch_size // algorithm.minibatches,
                "epochs": algorithm.epochs,
                "beta": algorithm.kl_coef,
            }


def architecture(start: Path, stage: str) -> dict[str, Any]:
    """Of the model that a stage trains, which begins as the one in `start`."""
    model = inspect_model(start)
    return {
        "kind": model.architecture,
        "output": "a score at the last token" if stage == "reward_model" else "the next token",
        "parameters": sum(prod(tensor.shape) for tensor in model.tensors.values()),  # of `start`, its head included
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "context_length": model.context_length,
    }


def rate_of(config: TrainConfig, stage: str) -> float:
    """The learning rate that a stage trains with: its own, or else the top-level one."""
    own = config.algorithm.learning_rate
    if stage in ("sft", "reward_model"):
        own = config.sft.learning_rate if stage == "sft" else config.reward_model.learning_rate
    return config.learning_rate if own is None else own
