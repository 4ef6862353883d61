"""Directories of four families: what is refused, and what saving keeps."""

import json

import pytest
import torch
from architectures import ARCHITECTURES, NUM_IDS, NUM_ROWS, write_architecture
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from rlhf_ray.errors import ModelError
from rlhf_ray.models.directory import inspect_model, require_language_model, require_reward_model
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.models.save import save_language_model, save_scalar_model

IDS = torch.tensor([[1, 7, 8, 9]])


@pytest.fixture(params=ARCHITECTURES)
def folder(request, tmp_path):
    return write_architecture(tmp_path / request.param, request.param)


def change(file, **values):
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(content | values))


def change_tensors(folder, edit):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_written_in_the_chosen_type_and_trained_in_float32(folder, tmp_path, dtype):
    model = load_language_model(folder, dtype=torch.float32)
    tied = model.tied
    save_language_model(model, tmp_path / "saved", tokenizer_source=folder, dtype=dtype)
    saved = inspect_model(tmp_path / "saved")
    assert {tensor.dtype for tensor in saved.tensors.values()} == {
        {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}[dtype]
    }
    assert (saved.lm_head is None) == tied
    again = load_language_model(tmp_path / "saved", dtype=torch.float32)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    for (name, before), (_, after) in zip(model.named_weights(), again.named_weights(), strict=True):
        assert torch.equal(before.to(dtype).float(), after), name
    assert model.causal.config.dtype == torch.float32


def test_a_tied_head_counts_once_in_the_parameters(folder):
    model = load_language_model(folder, dtype=torch.float32)
    names = [name for name, _ in model.named_weights()]
    assert len(names) - len(list(model.parameters())) == int(model.tied)
    assert model.tied == inspect_model(folder).tied


def test_a_tied_flag_with_another_head_is_refused_by_flag_and_tensor(folder):
    directory = inspect_model(folder)
    head = "embed_out.weight" if "embed_out.weight" in directory.tensors else "lm_head.weight"
    change(folder / "config.json", tie_word_embeddings=True)
    change_tensors(folder, lambda tensors: tensors.update({head: torch.randn(NUM_ROWS, 64)}))
    for check in (
        lambda: load_language_model(folder, dtype=torch.float32),
        lambda: load_scalar_model(folder, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float32),
    ):
        with pytest.raises(ModelError, match=f"tie_word_embeddings is true .* but {head} differs"):
            check()


def test_an_untied_flag_without_head_is_refused(folder):
    change(folder / "config.json", tie_word_embeddings=False)
    change_tensors(folder, lambda tensors: [tensors.pop(name, None) for name in ("lm_head.weight", "embed_out.weight")])
    with pytest.raises(ModelError, match=r"tie_word_embeddings is false .* hold no"):
        load_language_model(folder, dtype=torch.float32)


def test_an_embedding_smaller_than_the_tokenizer_is_refused(folder, tmp_path):
    small = write_architecture(tmp_path / "small", folder.name, num_rows=NUM_IDS - 1)
    for require in (require_language_model, lambda found: require_reward_model(found, head="score")):
        with pytest.raises(ModelError, match="the tokenizer knows 61 ids and the embedding has 60 rows"):
            require(inspect_model(small))


def test_a_vocab_size_other_than_the_embedding_is_refused(folder):
    change(folder / "config.json", vocab_size=NUM_ROWS + 1)
    with pytest.raises(ModelError, match=r"vocab_size is 65 in config\.json but the embedding has 64 rows"):
        require_language_model(inspect_model(folder))


@pytest.mark.parametrize(
    ("eos", "reason"),
    [(64, "eos_token_id 64 is no row"), ("</s>", "accepted: a whole number"), ([2, None], "accepted: a whole number")],
)
def test_end_tokens_that_cannot_be_are_refused(folder, eos, reason):
    change(folder / "generation_config.json", eos_token_id=eos)
    with pytest.raises(ModelError, match=reason):
        require_language_model(inspect_model(folder))


def reward_model(folder, into):
    model = load_scalar_model(folder, start=HeadStart.RANDOM, head="score", seed=3, dtype=torch.float32)
    model.normalize(mean=0.5, std=2.0)
    save_scalar_model(model, into, tokenizer_source=folder, dtype=torch.float32)
    return model


def test_a_score_is_the_head_on_the_last_hidden_state_shifted_and_scaled(folder, tmp_path):
    model = reward_model(folder, tmp_path / "reward")
    loaded = load_scalar_model(tmp_path / "reward", start=HeadStart.STORED, head="score", seed=0, dtype=torch.float32)
    with torch.inference_mode():
        hidden = loaded.hidden_states(IDS)[0, -1]
        by_hand = (hidden @ model.classifier.score.weight[0] - 0.5) / 2.0
        assert loaded.score(loaded.hidden_states(IDS)[0, -1:])[0] == pytest.approx(by_hand.item(), abs=1e-6)
    assert loaded.score_mean.item() == 0.5


def test_a_head_of_another_name_is_read_where_it_is_named(folder, tmp_path):
    reward_model(folder, tmp_path / "reward")
    change_tensors(
        tmp_path / "reward", lambda tensors: tensors.update({"v_head.summary.weight": tensors.pop("score.weight")})
    )
    with pytest.raises(ModelError, match=r"other heads in it: v_head\.summary"):
        load_scalar_model(tmp_path / "reward", start=HeadStart.STORED, head="score", seed=0, dtype=torch.float32)
    loaded = load_scalar_model(
        tmp_path / "reward", start=HeadStart.STORED, head="v_head.summary", seed=0, dtype=torch.float32
    )
    with safe_open(tmp_path / "reward" / "model.safetensors", "pt") as file:
        assert torch.equal(loaded.classifier.score.weight, file.get_tensor("v_head.summary.weight"))


def test_two_outputs_and_no_head_are_refused(folder, tmp_path):
    with pytest.raises(ModelError, match="is a language model without a score head"):
        load_scalar_model(folder, start=HeadStart.STORED, head="score", seed=0, dtype=torch.float32)
    reward_model(folder, tmp_path / "reward")
    change_tensors(tmp_path / "reward", lambda tensors: tensors.update({"score.weight": torch.zeros(2, 64)}))
    with pytest.raises(ModelError, match=r"has shape \[2, 64\]; a reward model has one output"):
        load_scalar_model(tmp_path / "reward", start=HeadStart.STORED, head="score", seed=0, dtype=torch.float32)
    change_tensors(tmp_path / "reward", lambda tensors: tensors.pop("score.weight"))
    with pytest.raises(ModelError, match=r"holds no such tensor \(score\.weight was looked for"):
        load_scalar_model(tmp_path / "reward", start=HeadStart.STORED, head="score", seed=0, dtype=torch.float32)
