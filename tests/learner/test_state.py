"""A saved learner continues to the same bits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import METRICS, SEQUENCES, SETTINGS, critic_learner, plan, policy_learner, sft_batch

from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.errors import CheckpointError
from rlhf_ray.learner.torch_learner import TorchLearner
from rlhf_ray.models.load import HeadStart, load_scalar_model
from rlhf_ray.types import (
    ValueOutputs,
)


@pytest.mark.parametrize("family", ["llama", "tied_llama"])
def test_one_step_save_load_and_two_more_equal_three_to_the_bit(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = request.getfixturevalue(family)
    rates = (1e-2, 5e-3, 1e-3)
    straight = policy_learner(path)
    straight.update(sft_batch(), plan=plan(*rates), loss=SftLoss(), stop=None)
    first = policy_learner(path)
    first.update(sft_batch(), plan=plan(*rates[:1]), loss=SftLoss(), stop=None)
    first.save(tmp_path / "saved")
    resumed = policy_learner(path)
    resumed.update(sft_batch(), plan=plan(0.1), loss=SftLoss(), stop=None)  # must leave no trace
    resumed.load(tmp_path / "saved")
    resumed.update(sft_batch(), plan=plan(*rates[1:]), loss=SftLoss(), stop=None)
    assert all(torch.equal(weight, dict(straight.named_weights())[name]) for name, weight in resumed.named_weights())


def test_a_critic_and_a_learner_that_never_stepped_are_saved_whole(llama: Path, tmp_path: Path) -> None:
    critic = critic_learner(llama)
    critic.save(tmp_path / "critic")
    other = TorchLearner(
        load_scalar_model(llama, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float64),
        settings=SETTINGS,
        metrics=METRICS,
    )
    other.load(tmp_path / "critic")
    ours, theirs = critic.forward(SEQUENCES), other.forward(SEQUENCES)
    assert isinstance(ours, ValueOutputs)
    assert isinstance(theirs, ValueOutputs)
    assert np.array_equal(ours.values.values, theirs.values.values)


def test_a_checkpoint_of_another_model_or_with_a_missing_file_is_refused(
    llama: Path, gpt2: Path, tmp_path: Path
) -> None:
    learner = policy_learner(llama)
    learner.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="belongs to another model"):
        policy_learner(gpt2).load(tmp_path / "saved")
    (tmp_path / "saved" / "optimizer.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors is missing"):
        learner.load(tmp_path / "saved")
    (tmp_path / "saved" / "weights.safetensors").write_bytes(b"short")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is damaged"):
        learner.load(tmp_path / "saved")
