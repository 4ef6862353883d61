"""Both backends on four families whose embedding has more rows than the tokenizer has ids."""

import json

import numpy as np
import pytest
import torch
from architectures import ARCHITECTURES, CONTEXT, NUM_IDS, NUM_ROWS, OTHER_EOS, write_architecture

from rlhf_ray.generation.hf_generator import HfGenerator
from rlhf_ray.generation.seeds import derive_seeds
from rlhf_ray.generation.settings import HfSettings
from rlhf_ray.learner.forward import TokenDistribution, over_known_ids, policy_outputs
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.load import load_language_model
from rlhf_ray.models.save import save_language_model
from rlhf_ray.types import FinishReason, Prompts, Ragged, Sampling, join
from rlhf_ray.weight_sync.buckets import WeightSender
from rlhf_ray.weight_sync.channel import BucketChannel

ROWS = [[1, 7, 8, 9], [1, 10], [1, 11, 2, 12, 13, 14, 15], [1, 20, 21]]
TEMPERATURE = 0.7


@pytest.fixture(params=ARCHITECTURES)
def folder(request, tmp_path):
    return write_architecture(tmp_path / request.param, request.param)


@pytest.fixture(params=["hf", pytest.param("vllm", marks=pytest.mark.slow)])
def generator(request, folder, in_own_process, vllm_settings):
    if request.param == "hf":
        return HfGenerator(
            folder, settings=HfSettings(dtype="float32", device="cpu", max_model_len=CONTEXT, max_rows=4)
        )
    return in_own_process("rlhf_ray.generation.vllm_generator:VllmGenerator", folder, settings=vllm_settings)


def answers(generator, folder, *, num_samples=4, temperature=TEMPERATURE):
    """The generator's answers after a sync from the model as a learner loads it, and that model."""
    model = load_language_model(folder, dtype=torch.float32)
    BucketChannel(WeightSender(model.named_weights, bucket_bytes=8192), [generator]).send(version=1)
    prompts = Prompts(ids=("a", "b", "c", "d"), texts=("",) * 4, tokens=Ragged.from_rows(ROWS, np.int32))
    sampling = Sampling(
        temperature=temperature,
        max_new_tokens=12,
        eos_token_ids=inspect_model(folder).eos_token_ids,
        num_samples=num_samples,
    )
    seeds = derive_seeds(prompts.ids, seed=1, step=0, num_samples=num_samples)
    return generator.generate(prompts, sampling=sampling, seeds=seeds, version=1), model


def learner_logprobs(model, folder, completions, *, temperature=TEMPERATURE):
    distribution = TokenDistribution(temperature=temperature, num_token_ids=None, chunk_tokens=16)
    sequences = join(completions.prompts.tokens, completions.tokens)
    known = over_known_ids(distribution, folder)
    return policy_outputs(model, sequences, max_tokens=128, distribution=known).logprobs.values


def test_rows_beyond_the_tokenizer_are_never_drawn_and_log_probs_agree(generator, folder):
    completions, model = answers(generator, folder)
    with torch.inference_mode():
        raw = model.causal(torch.tensor([ROWS[2]])).logits
    assert raw.argmax(-1).max() >= NUM_IDS, "without a restriction these ids would be drawn"
    assert completions.tokens.values.max() < NUM_IDS
    assert np.abs(learner_logprobs(model, folder, completions) - completions.logprobs.values).max() < 2e-5


def test_greedy_answers_keep_to_the_tokenizer(generator, folder):
    completions, _ = answers(generator, folder, num_samples=1, temperature=0.0)
    assert completions.tokens.values.max() < NUM_IDS


def test_every_eos_of_the_list_ends_an_answer_and_sampling_defaults_do_not_leak(generator, folder):
    completions, model = answers(generator, folder, num_samples=40, temperature=1.5)
    ends = {
        int(row[-1])
        for row, reason in zip(completions.tokens.rows(), completions.finish_reasons, strict=True)
        if reason is FinishReason.STOP
    }
    assert ends == {2, OTHER_EOS}
    # top_p, top_k or a repetition penalty would move these
    assert (
        np.abs(learner_logprobs(model, folder, completions, temperature=1.5) - completions.logprobs.values).max() < 2e-5
    )


def test_saving_keeps_rows_flags_and_the_eos_list(folder, tmp_path):
    model = load_language_model(folder, dtype=torch.float32)
    saved = tmp_path / "saved"
    save_language_model(model, saved, tokenizer_source=folder, dtype=torch.float32)
    before, after = inspect_model(folder), inspect_model(saved)
    assert (after.vocab_size, after.tied, after.eos_token_ids) == (NUM_ROWS, before.tied, (2, OTHER_EOS))
    assert after.sampling_defaults == {}
    assert after.ids_to_sample == NUM_IDS
    again = load_language_model(saved, dtype=torch.float32)
    ids = torch.tensor(ROWS[2:3])
    with torch.inference_mode():
        assert torch.equal(model.causal(ids).logits, again.causal(ids).logits)


def test_sampling_defaults_of_a_directory_are_listed(folder):
    defaults = json.loads((folder / "generation_config.json").read_text())
    assert defaults["top_k"] == 20
    assert inspect_model(folder).sampling_defaults == {
        "do_sample": True,
        "repetition_penalty": 1.1,
        "top_k": 20,
        "top_p": 0.8,
    }
