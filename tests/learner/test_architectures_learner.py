"""Identities of step 0, layouts and memory options on four families, with dropout in the config of two of them."""

import dataclasses

import numpy as np
import pytest
import torch
from architectures import ARCHITECTURES, NUM_IDS, write_architecture
from learner_cases import METRICS, RESPONSES, SEQUENCES, SETTINGS, plan, policy_batch, sft_batch, weights_of

from rlhf_ray.algorithms.losses import PolicyLoss, SftLoss
from rlhf_ray.learner.forward import over_known_ids, policy_outputs
from rlhf_ray.learner.torch_learner import TorchLearner
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.models.scalar_forward import scalar_outputs

PPO = PolicyLoss(clip_low=0.2, clip_high=0.2, dual_clip=None, entropy_coef=0.01, kl_coef=0.0, kl_estimator="k1")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request, tmp_path_factory):
    return write_architecture(tmp_path_factory.mktemp(request.param) / "model", request.param)


def learner(folder, *, dtype=torch.float64, **settings):
    known = over_known_ids(SETTINGS.distribution, folder)
    chosen = dataclasses.replace(SETTINGS, distribution=known, **settings)
    return TorchLearner(load_language_model(folder, dtype=dtype), settings=chosen, metrics=METRICS)


def test_the_reference_says_the_same_as_the_policy_in_every_layout(folder):
    policy = learner(folder).forward(SEQUENCES).logprobs.values
    reference = load_language_model(folder, dtype=torch.float64)
    known = over_known_ids(SETTINGS.distribution, folder)
    assert known.num_token_ids == NUM_IDS
    for max_tokens in (1, 20, 1000):  # one, two and all rows at a time
        outputs = policy_outputs(reference, SEQUENCES, max_tokens=max_tokens, distribution=known)
        assert np.abs(outputs.logprobs.values - policy).max() < 1e-6


def test_the_ratio_is_one_in_every_epoch_at_learning_rate_zero(folder):
    policy = learner(folder)
    stats = policy.update(policy_batch(policy), plan=plan(0.0, 0.0), loss=PPO, stop=None).stats
    assert stats["policy/ratio_max"].value == pytest.approx(1.0, abs=1e-6)
    assert stats["policy/approxkl_avg"].value == pytest.approx(0.0, abs=1e-6)
    assert stats["policy/clipfrac_avg"].value == 0.0


@pytest.mark.parametrize("max_tokens", [1, 20])
def test_small_micro_batches_take_the_same_step(folder, max_tokens):
    whole, split = learner(folder), learner(folder, max_tokens=max_tokens)
    for one in (whole, split):
        one.update(sft_batch(), plan=plan(1e-3), loss=SftLoss(), stop=None)
    for name, tensor in weights_of(whole).items():
        assert (tensor - weights_of(split)[name]).abs().max() < 1e-6, name


def test_an_answer_alone_has_its_share_of_the_padded_batch(folder):
    policy = learner(folder)
    together = policy.evaluate(sft_batch(), SftLoss())["sft/loss"]
    alone = [policy.evaluate(sft_batch(trained=[row]), SftLoss())["sft/loss"] for row in range(len(RESPONSES))]
    assert sum(loss.total for loss in alone) == pytest.approx(together.total, abs=1e-6)
    assert [loss.count for loss in alone] == [len(response) for response in RESPONSES]


def test_checkpointed_layers_take_the_same_step_and_say_the_same(folder):
    plain, checkpointed = learner(folder), learner(folder, checkpoint_layers=True)
    said = [one.forward(SEQUENCES).logprobs.values for one in (plain, checkpointed)]
    assert np.abs(said[0] - said[1]).max() < 1e-9
    for one in (plain, checkpointed):
        one.update(sft_batch(), plan=plan(1e-3), loss=SftLoss(), stop=None)
    for name, tensor in weights_of(plain).items():
        assert (tensor - weights_of(checkpointed)[name]).abs().max() < 1e-9, name


def test_checkpointing_keeps_fewer_activations(folder):
    plain, checkpointed = (saved_numbers(learner(folder, checkpoint_layers=option)) for option in (False, True))
    assert checkpointed < plain / 4


def saved_numbers(policy):
    """How many numbers a forward pass keeps for the way back."""
    sizes = []

    def note(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        policy._model.hidden_states(torch.ones(4, 64, dtype=torch.long))
    return sum(sizes)


def test_a_critic_from_a_language_model_starts_at_zero_and_reads_no_padding(folder):
    critic = load_scalar_model(folder, start=HeadStart.RANDOM, head="score", seed=1, dtype=torch.float64)
    together = scalar_outputs(critic, SEQUENCES, max_tokens=1000)
    alone = scalar_outputs(critic, SEQUENCES, max_tokens=1)
    assert np.abs(together.scores.values - alone.scores.values).max() < 1e-6
    assert np.abs(together.values.values - alone.values.values).max() < 1e-6
    zero = load_scalar_model(folder, start=HeadStart.ZERO, head="score", seed=1, dtype=torch.float64)
    assert not scalar_outputs(zero, SEQUENCES, max_tokens=1000).scores.values.any()
