import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import write_llama
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from rlhf_ray.errors import ModelError
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.models.save import save_language_model, save_scalar_model
from rlhf_ray.models.scalar_model import ScalarModel

IDS = torch.tensor([[5, 9, 33, 2, 60], [1, 2, 3, 4, 5]])


def load_scalar(path: Path, start: HeadStart, *, head: str = "score", seed: int = 0) -> ScalarModel:
    return load_scalar_model(path, start=start, head=head, seed=seed, dtype=torch.float32)


@pytest.fixture
def neox(tmp_path: Path) -> Path:
    config = GPTNeoXConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout=0.1,
    )
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path / "neox")
    return tmp_path / "neox"


@pytest.fixture
def qwen2(tmp_path: Path) -> Path:
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "qwen2")
    return tmp_path / "qwen2"


@pytest.mark.parametrize("family", ["llama", "tied_llama", "gpt2", "neox", "qwen2"])
def test_a_saved_language_model_gives_the_same_logits_in_transformers(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model = load_language_model(request.getfixturevalue(family), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01
        logits = model.project(model.hidden_states(IDS))
    save_language_model(model, tmp_path / "saved", tokenizer_source=tmp_path, dtype=torch.float32)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    with torch.no_grad():
        torch.testing.assert_close(again(IDS).logits, logits, rtol=0, atol=1e-6)
    assert again.config.tie_word_embeddings == model.tied


@pytest.mark.parametrize("family", ["llama", "tied_llama", "gpt2", "neox", "qwen2"])
def test_a_saved_scalar_model_gives_the_same_scores_in_transformers(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model = load_scalar(request.getfixturevalue(family), HeadStart.RANDOM)
    save_scalar_model(model, tmp_path / "saved", tokenizer_source=tmp_path, dtype=torch.float32)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert again.config.num_labels == 1
    for row in IDS:  # one at a time: without a pad token transformers refuses more
        with torch.no_grad():
            ours = model.score(model.hidden_states(row[None]))[0, -1]
            torch.testing.assert_close(again(row[None]).logits[0, 0], ours, rtol=0, atol=1e-6)


def test_scores_are_shifted_and_scaled_after_reload(reward_model: Path) -> None:
    model = load_scalar(reward_model, HeadStart.STORED)
    raw = AutoModelForSequenceClassification.from_pretrained(reward_model)(IDS[:1]).logits[0, 0]
    score = model.score(model.hidden_states(IDS[:1]))[0, -1]
    torch.testing.assert_close(score, (raw - 0.5) / 2.0)
    double = load_scalar_model(reward_model, start=HeadStart.STORED, head="score", seed=0, dtype=torch.float64)
    torch.testing.assert_close(double.score(double.hidden_states(IDS[:1]))[0, -1].float(), score, rtol=0, atol=1e-6)


def test_normalising_twice_composes() -> None:
    scores = torch.tensor([1.0, 3.0, 8.0])
    head = torch.nn.Module()
    head.score = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(head.score.weight)
    model = ScalarModel(head, mean=2.0, std=4.0)  # type: ignore[arg-type]  # only its head is used
    now = model.score(scores[:, None])
    torch.testing.assert_close(now, torch.tensor([-0.25, 0.25, 1.5]))
    model.normalize(mean=0.5, std=0.5)
    torch.testing.assert_close(model.score(scores[:, None]), torch.tensor([-1.5, -0.5, 2.0]))
    with pytest.raises(ModelError, match="std must be above 0"):
        model.normalize(mean=0.0, std=0.0)


def test_the_critic_started_from_the_reward_model_is_the_reward_model(reward_model: Path) -> None:
    judge = load_scalar(reward_model, HeadStart.STORED)
    critic = load_scalar(reward_model, HeadStart.STORED)
    with torch.no_grad():
        assert torch.equal(critic.score(critic.hidden_states(IDS)), judge.score(judge.hidden_states(IDS)))


def test_a_new_head_is_drawn_with_std_one_over_root_of_width_plus_one(tmp_path: Path) -> None:
    write_llama(tmp_path, tied=False, width=2048)
    weight = load_scalar(tmp_path, HeadStart.RANDOM, seed=7).classifier.score.weight
    assert weight.shape == (1, 2048)
    assert weight.std().item() == pytest.approx(0.022092, rel=0.05)
    assert torch.equal(weight, load_scalar(tmp_path, HeadStart.RANDOM, seed=7).classifier.score.weight)
    assert not torch.equal(weight, load_scalar(tmp_path, HeadStart.RANDOM, seed=8).classifier.score.weight)


def test_a_zero_head_values_everything_at_zero(llama: Path) -> None:
    model = load_scalar(llama, HeadStart.ZERO)
    assert torch.equal(model.score(model.hidden_states(IDS)), torch.zeros(2, 5))


def test_a_language_model_never_gets_a_random_head_unasked(llama: Path) -> None:
    with pytest.raises(ModelError, match="is a language model without a score head"):
        load_scalar(llama, HeadStart.STORED)


def test_a_head_under_another_name_is_read_from_there(reward_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(reward_model, model)
    tensors = load_file(model / "model.safetensors")
    tensors["value_head.weight"] = tensors.pop("score.weight")
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    named = load_scalar(model, HeadStart.STORED, head="value_head")
    assert torch.equal(named.classifier.score.weight, tensors["value_head.weight"])


def test_a_tied_head_is_one_storage_and_counts_once(tied_llama: Path) -> None:
    model = load_language_model(tied_llama, dtype=torch.float32)
    assert model.tied
    names = dict(model.named_weights())
    assert names["lm_head.weight"].data_ptr() == names["model.embed_tokens.weight"].data_ptr()
    embedding_rows = [parameter for parameter in model.parameters() if parameter.shape == (64, 32)]
    assert len([p for p in embedding_rows if p.data_ptr() == names["lm_head.weight"].data_ptr()]) == 1


@pytest.mark.parametrize("family", ["gpt2", "neox"])
def test_dropout_is_off_even_in_training_mode(family: str, request: pytest.FixtureRequest) -> None:
    model = load_language_model(request.getfixturevalue(family), dtype=torch.float32)
    model.train()
    assert torch.equal(model.hidden_states(IDS), model.hidden_states(IDS))


def test_a_tensor_that_is_not_in_the_directory_is_refused(llama: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(llama, model)
    tensors = load_file(model / "model.safetensors")
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 tensors .* first model\.layers\.1\.self_attn\.k_proj\.weight"):
        load_language_model(model, dtype=torch.float32)


def test_a_family_that_caps_its_logits_is_refused(tmp_path: Path) -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        intermediate_size=64,
        final_logit_softcapping=0.01,
    )
    Gemma2ForCausalLM(config).save_pretrained(tmp_path / "gemma2")
    with pytest.raises(ModelError, match="changes logits after its output head"):
        load_language_model(tmp_path / "gemma2", dtype=torch.float32)


def test_odd_sampling_defaults_neither_leak_nor_break_the_save(llama: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    shutil.copytree(llama, odd)
    defaults = {"eos_token_id": [2, 5], "top_p": 0.8, "top_k": 20, "do_sample": False, "temperature": 0.5}
    (odd / "generation_config.json").write_text(json.dumps(defaults))
    save_language_model(
        load_language_model(odd, dtype=torch.float32), tmp_path / "saved", tokenizer_source=odd, dtype=torch.float32
    )
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == [2, 5]
    assert not {"top_p", "top_k", "temperature"} & set(saved)
    AutoModelForCausalLM.from_pretrained(tmp_path / "saved")


def test_tokenizer_files_are_copied_byte_for_byte(llama: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_bytes(b'{"x": "\xc3\xa9"}')
    (source / "notes.txt").write_text("not a tokenizer file")
    save_language_model(
        load_language_model(llama, dtype=torch.float32),
        tmp_path / "saved",
        tokenizer_source=source,
        dtype=torch.float32,
    )
    assert (tmp_path / "saved" / "tokenizer.json").read_bytes() == b'{"x": "\xc3\xa9"}'
    assert not (tmp_path / "saved" / "notes.txt").exists()


def test_the_same_seed_makes_the_same_tiny_model(tmp_path: Path, llama: Path) -> None:
    torch.manual_seed(99)  # must not matter
    write_llama(tmp_path / "same", tied=False, seed=0)
    write_llama(tmp_path / "other", tied=False, seed=1)
    same, other, first = (load_file(p / "model.safetensors") for p in (tmp_path / "same", tmp_path / "other", llama))
    assert all(torch.equal(same[name], first[name]) for name in first)
    assert not torch.equal(other["lm_head.weight"], first["lm_head.weight"])
