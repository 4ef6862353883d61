"""What every generator backend promises: runs once per backend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlhf_ray.errors import DataError, StaleGeneratorError, SyncError
from rlhf_ray.generation.seeds import derive_seeds
from rlhf_ray.types import Bucket, Completions, FinishReason, Prompts, Ragged, Sampling, WeightManifest
from rlhf_ray.weight_sync.channel import BucketChannel

SAMPLING = Sampling(temperature=0.7, max_new_tokens=16, eos_token_ids=(2, 5), num_samples=2)
GREEDY = Sampling(temperature=0.0, max_new_tokens=6, eos_token_ids=(), num_samples=1)


def draw(bench, prompts: Prompts, *, sampling: Sampling = SAMPLING, version: int = 1) -> Completions:
    seeds = derive_seeds(prompts.ids, seed=3, step=0, num_samples=sampling.num_samples)
    return bench.generator.generate(prompts, sampling=sampling, seeds=seeds, version=version)


def learner_logprobs(model, prompt: np.ndarray, answer: np.ndarray, temperature: float) -> np.ndarray:
    """log softmax(logits / temperature) of each answer token, by one plain forward pass."""
    tokens = torch.tensor(np.concatenate([prompt, answer])[None].astype(np.int64))
    with torch.no_grad():
        logprobs = torch.log_softmax(model(tokens).logits[0] / temperature, dim=-1)
    picked = logprobs[len(prompt) - 1 : -1].gather(1, tokens[0, len(prompt) :, None])
    return picked[:, 0].numpy()


def gap_to_learner(bench, completions: Completions, temperature: float = SAMPLING.temperature) -> float:
    return max(
        float(np.abs(learner_logprobs(bench.model, prompt, answer, temperature) - logprobs).max())
        for prompt, answer, logprobs in zip(
            completions.prompts.tokens.rows(), completions.tokens.rows(), completions.logprobs.rows(), strict=True
        )
    )


def rows_of(prompts: Prompts, order: list[int]) -> Prompts:
    return Prompts(
        ids=tuple(prompts.ids[i] for i in order),
        texts=tuple(prompts.texts[i] for i in order),
        tokens=prompts.tokens.take(order),
    )


def test_answers_stand_in_prompt_order_with_samples_side_by_side(bench, prompts):
    completions = draw(bench, prompts)
    assert completions.prompts.ids == ("a", "a", "b", "b", "c", "c", "d", "d")
    assert [row.tolist() for row in completions.prompts.tokens.rows()[::2]] == [
        row.tolist() for row in prompts.tokens.rows()
    ]
    assert completions.prompts.texts[2] == "w10"
    assert len(completions.tokens) == len(completions.texts) == len(completions.finish_reasons) == 8
    assert completions.tokens.values.dtype == np.int32
    assert completions.logprobs.values.dtype == np.float32
    assert completions.tokens.offsets.tolist() == completions.logprobs.offsets.tolist()


def test_only_stopped_answers_end_in_an_end_token_and_cut_ones_are_full_length(bench, prompts):
    completions = draw(bench, prompts, sampling=replace(SAMPLING, num_samples=16))
    assert set(completions.finish_reasons) == {FinishReason.STOP, FinishReason.LENGTH}
    for answer, reason in zip(completions.tokens.rows(), completions.finish_reasons, strict=True):
        assert not {2, 5} & set(answer[:-1].tolist())
        if reason is FinishReason.STOP:
            assert answer[-1] in (2, 5)
        else:
            assert answer[-1] not in (2, 5)
            assert len(answer) == 16


def test_every_end_token_of_the_list_stops_and_the_models_own_does_not(bench, prompts):
    completions = draw(bench, prompts, sampling=replace(SAMPLING, num_samples=16))
    last = {int(answer[-1]) for answer in completions.tokens.rows()}
    assert {2, 5} <= last
    assert 4 in completions.tokens.values  # config.json's end token goes on as an ordinary one


def test_texts_are_decoded_without_special_tokens(bench, prompts):
    completions = draw(bench, prompts)
    vocabulary = ["", "", "", "", "stone", "<end>", *(f"w{i}" for i in range(6, 61))]
    for answer, text in zip(completions.tokens.rows(), completions.texts, strict=True):
        assert text.split() == [vocabulary[token] for token in answer if vocabulary[token]]


def test_logprobs_are_those_of_the_sampled_distribution(bench, prompts):
    assert gap_to_learner(bench, draw(bench, prompts)) < 1e-4


def test_the_models_sampling_defaults_do_not_leak_in(bench, prompts):
    # top_k = 2 and top_p = 0.3 of the directory would leave at most two first tokens
    sampling = Sampling(temperature=1.0, max_new_tokens=1, eos_token_ids=(2, 5), num_samples=200)
    completions = draw(bench, rows_of(prompts, [0]), sampling=sampling)
    first = np.bincount(completions.tokens.values, minlength=61)
    with torch.no_grad():
        logits = bench.model(torch.tensor([[7, 8, 9]])).logits[0, -1]
    expected = torch.softmax(logits, dim=-1).numpy() * 200
    likely = expected >= 5
    chi_square = float((((first - expected) ** 2) / expected)[likely].sum())
    assert likely.sum() >= 5
    assert chi_square < 3 * likely.sum()
    assert gap_to_learner(bench, completions, temperature=1.0) < 1e-4


def test_an_answer_depends_on_its_own_seed_only(bench, prompts):
    together = draw(bench, prompts)
    backwards = draw(bench, rows_of(prompts, [3, 2, 1, 0]))
    for row in range(4):
        alone = draw(bench, rows_of(prompts, [row]))
        for sample in range(2):
            expected = together.tokens.row(2 * row + sample).tolist()
            assert alone.tokens.row(sample).tolist() == expected
            assert backwards.tokens.row(2 * (3 - row) + sample).tolist() == expected
            np.testing.assert_allclose(
                alone.logprobs.row(sample), together.logprobs.row(2 * row + sample), atol=1e-5, rtol=0
            )


def test_samples_of_one_prompt_differ_and_another_step_draws_anew(bench, prompts):
    completions = draw(bench, prompts)
    assert completions.tokens.row(0).tolist() != completions.tokens.row(1).tolist()
    seeds = derive_seeds(prompts.ids, seed=3, step=1, num_samples=2)
    later = bench.generator.generate(prompts, sampling=SAMPLING, seeds=seeds, version=1)
    assert later.tokens.values.tolist() != completions.tokens.values.tolist()


def test_temperature_zero_is_greedy_with_logprobs_at_temperature_one(bench, prompts):
    completions = draw(bench, prompts, sampling=GREEDY)
    assert gap_to_learner(bench, completions, temperature=1.0) < 1e-4
    with torch.no_grad():
        logits = bench.model(torch.tensor([[7, 8, 9]])).logits[0, -1]
    assert completions.tokens.row(0)[0] == int(logits.argmax())


def test_every_answer_names_the_version_that_produced_it(bench, prompts):
    bench.sync(version=41)
    assert draw(bench, prompts, version=41).versions.tolist() == [[41, 41]] * 8


def test_an_answer_that_cannot_fit_is_refused_by_prompt_id(bench):
    long = Prompts(ids=("ok", "long"), texts=("", ""), tokens=Ragged.from_rows([[7] * 176, [7] * 177], np.int32))
    with pytest.raises(DataError, match=r"'long' has 177 tokens.*may have 1 to 176"):
        draw(bench, long)
    assert len(draw(bench, rows_of(long, [0])).tokens) == 2


# ------------------------------------------------------------------------------------------------------- weight sync


def test_another_version_is_refused(bench, prompts):
    with pytest.raises(StaleGeneratorError, match="version 2 was asked for, version 1 is loaded"):
        draw(bench, prompts, version=2)


def test_a_sync_under_way_refuses_and_an_abandoned_one_heals(bench, prompts):
    bench.generator.begin_sync(bench.sender.manifest(2))
    bench.generator.receive(bench.sender.bucket(0))
    for version in (1, 2):
        with pytest.raises(StaleGeneratorError, match="receiving"):
            draw(bench, prompts, version=version)
    bench.sync(version=2)
    assert gap_to_learner(bench, draw(bench, prompts, version=2)) < 1e-5


def test_a_step_that_flips_the_greedy_choice_shows_after_the_sync_and_not_before(bench, prompts):
    before = draw(bench, prompts, sampling=GREEDY)
    with torch.no_grad():
        bench.model.lm_head.weight.neg_()
    assert draw(bench, prompts, sampling=GREEDY).tokens.values.tolist() == before.tokens.values.tolist()
    bench.sync(version=2)
    after = draw(bench, prompts, sampling=GREEDY, version=2)
    assert after.tokens.row(0)[0] != before.tokens.row(0)[0]
    assert gap_to_learner(bench, after, temperature=1.0) < 1e-4


def test_no_answer_uses_keys_cached_under_older_weights(bench):
    tokens = np.random.default_rng(0).integers(6, 61, size=150).tolist()
    long = Prompts(ids=("a", "b"), texts=("", ""), tokens=Ragged.from_rows([[*tokens, 7], [*tokens, 8]], np.int32))
    draw(bench, long)
    with torch.no_grad():
        bench.model.model.layers[0].self_attn.k_proj.weight.neg_()
        bench.model.model.layers[0].self_attn.v_proj.weight.neg_()
    bench.sync(version=2)
    assert gap_to_learner(bench, draw(bench, long, version=2)) < 1e-4


def test_the_receipt_is_the_same_for_the_same_weights_only(bench):
    receipts = []
    for version in (2, 3, 4):
        if version == 4:
            with torch.no_grad():
                bench.model.model.norm.weight[0] += 1
        bench.generator.begin_sync(bench.sender.manifest(version))
        for index in range(len(bench.sender.manifest(version).bucket_bytes)):
            bench.generator.receive(bench.sender.bucket(index))
        receipts.append(bench.generator.finish_sync())
    assert [receipt.version for receipt in receipts] == [2, 3, 4]
    assert receipts[0].digest == receipts[1].digest != receipts[2].digest


@pytest.mark.parametrize("backend", ["hf", "vllm"])
def test_tied_embeddings_are_fresh_after_every_sync(backend, bench_of, prompts):
    bench = bench_of(backend, "tied")
    assert bench.model.lm_head.weight is bench.model.model.embed_tokens.weight
    assert gap_to_learner(bench, draw(bench, prompts)) < 1e-4
    with torch.no_grad():
        for parameter in bench.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    bench.sync(version=2)
    assert gap_to_learner(bench, draw(bench, prompts, version=2)) < 1e-4


@pytest.mark.parametrize("backend", ["hf", "vllm"])
def test_a_generator_of_a_tied_model_takes_its_head_from_the_head_that_was_sent(backend, bench_of, prompts):
    # CPU kernels that repack a head never see it again if it is tied; only a head of its own is always fresh
    bench = bench_of(backend, "tied")
    with torch.no_grad():
        bench.model.lm_head.weight = torch.nn.Parameter(bench.model.lm_head.weight.neg())
    bench.sync(version=2)
    assert gap_to_learner(bench, draw(bench, prompts, version=2)) < 1e-4


def drop_a_name(manifest: WeightManifest) -> WeightManifest:
    kept = tuple(spec for spec in manifest.tensors if "layers.1.self_attn.k_proj" not in spec.name)
    return replace(manifest, tensors=kept)


def add_a_name(manifest: WeightManifest) -> WeightManifest:
    return replace(manifest, tensors=(*manifest.tensors, replace(manifest.tensors[0], name="model.extra")))


def bend_a_shape(manifest: WeightManifest) -> WeightManifest:
    first = manifest.tensors[0]
    return replace(manifest, tensors=(replace(first, shape=first.shape[::-1]), *manifest.tensors[1:]))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (drop_a_name, r"missing: model\.layers\.1\.self_attn\.k_proj\.weight"),
        (add_a_name, r"unknown to the model: model\.extra"),
        (bend_a_shape, r"model\.embed_tokens\.weight is float32\[32, 61\], the model has float32\[61, 32\]"),
    ],
)
def test_a_manifest_that_is_not_the_models_is_refused_and_sending_again_heals(bench, prompts, fault, message):
    with pytest.raises(SyncError, match=message):
        bench.generator.begin_sync(fault(bench.sender.manifest(2)))
    assert_refuses_then_heals(bench, prompts)


def flip_a_byte(bucket: Bucket) -> Bucket:
    data = bucket.data.copy()
    data[100] ^= 1
    return replace(bucket, data=data)


def cut_short(bucket: Bucket) -> Bucket:
    return replace(bucket, data=bucket.data[:-64])


def relabel(bucket: Bucket) -> Bucket:
    return replace(bucket, version=bucket.version - 1)


def repeat(bucket: Bucket) -> Bucket:
    return replace(bucket, index=bucket.index - 1)


def skip(bucket: Bucket) -> Bucket:
    return replace(bucket, index=bucket.index + 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (flip_a_byte, "bucket 2 was damaged on the way"),
        (cut_short, "bucket 2 has .* bytes"),
        (relabel, "a bucket of version 1 came in a sync of version 2"),
        (repeat, "bucket 1 was repeated; bucket 2 is next"),
        (skip, "bucket 3 came too early; bucket 2 is next"),
    ],
)
def test_a_wrong_bucket_is_refused_and_sending_again_heals(bench, prompts, fault, message):
    bench.generator.begin_sync(bench.sender.manifest(2))
    for index in range(2):
        bench.generator.receive(bench.sender.bucket(index))
    with pytest.raises(SyncError, match=message):
        bench.generator.receive(fault(bench.sender.bucket(2)))
    with pytest.raises(SyncError, match="no sync is under way"):
        bench.generator.finish_sync()
    assert_refuses_then_heals(bench, prompts)


def test_a_sync_without_its_last_bucket_is_refused_and_sending_again_heals(bench, prompts):
    manifest = bench.sender.manifest(2)
    last = len(manifest.bucket_bytes) - 1
    bench.generator.begin_sync(manifest)
    for index in range(last):
        bench.generator.receive(bench.sender.bucket(index))
    with pytest.raises(SyncError, match=r"incomplete: .* tensors arrived; missing lm_head\.weight"):
        bench.generator.finish_sync()
    assert_refuses_then_heals(bench, prompts)


def assert_refuses_then_heals(bench, prompts) -> None:
    for version in (1, 2):
        with pytest.raises(StaleGeneratorError, match="broken"):
            draw(bench, prompts, version=version)
    with torch.no_grad():
        bench.model.model.layers[1].self_attn.k_proj.weight.add_(0.1)
    bench.sync(version=2)
    assert gap_to_learner(bench, draw(bench, prompts, version=2)) < 1e-5


@pytest.mark.parametrize("backend", ["hf", "vllm"])
def test_a_second_generator_refuses_before_its_first_sync_and_then_answers_alike(
    backend, bench_of, generator_of, prompts
):
    bench = bench_of(backend, "untied")
    second = generator_of(backend, "untied again")
    seeds = derive_seeds(prompts.ids, seed=3, step=0, num_samples=2)
    with pytest.raises(StaleGeneratorError, match="idle"):
        second.generate(prompts, sampling=SAMPLING, seeds=seeds, version=1)
    receipts = BucketChannel(bench.sender, [bench.generator, second]).send(version=5)
    assert receipts[0] == receipts[1]
    ours = draw(bench, prompts, version=5)
    theirs = second.generate(prompts, sampling=SAMPLING, seeds=seeds, version=5)
    assert ours.tokens.values.tolist() == theirs.tokens.values.tolist()
    np.testing.assert_array_equal(ours.logprobs.values, theirs.logprobs.values)
