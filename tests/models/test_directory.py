import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlhf_ray.errors import ModelError
from rlhf_ray.models.directory import inspect_model, require_language_model, require_reward_model


def copy_of(model: Path, folder: Path) -> Path:
    shutil.copytree(model, folder)
    return folder


def edit_config(model: Path, **changes: object) -> None:
    file = model / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in config.items() if value != "ABSENT"}))


def edit_tensors(model: Path, **changes: torch.Tensor | None) -> None:
    tensors = load_file(model / "model.safetensors")
    for name, tensor in changes.items():
        key = name.replace("__", ".")
        if tensor is None:
            del tensors[key]
        else:
            tensors[key] = tensor
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})


def test_a_llama_directory_is_described(llama: Path) -> None:
    found = inspect_model(llama)
    assert found.architecture == "LlamaForCausalLM"
    assert (found.vocab_size, found.hidden_size, found.context_length) == (64, 32, 64)
    assert not found.tied
    assert found.lm_head == "lm_head.weight"
    assert found.eos_token_ids == (2,)
    assert found.tensors["model.layers.0.self_attn.q_proj.weight"].shape == (32, 32)
    assert found.score_mean is None


def test_a_gpt2_directory_is_described(gpt2: Path) -> None:
    found = inspect_model(gpt2)
    assert (found.vocab_size, found.hidden_size, found.context_length) == (64, 32, 64)
    assert found.tied
    assert found.lm_head is None


def test_a_reward_model_directory_is_described(reward_model: Path) -> None:
    found = inspect_model(reward_model)
    assert found.head_candidates == ("score",)
    assert (found.score_mean, found.score_std) == (0.5, 2.0)
    require_reward_model(found, head="score")


def test_the_end_tokens_of_the_generation_config_count(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5], "top_p": 0.8}))
    assert inspect_model(model).eos_token_ids == (2, 5)


def test_inspection_loads_no_torch_and_no_transformers(llama: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rlhf_ray.models.directory import *; "
        f"require_language_model(inspect_model(Path({str(llama)!r}))); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_path_that_is_no_model_directory_is_refused_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere does not exist; give a local Hugging Face model directory"):
        inspect_model(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        inspect_model(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="adapter without its model; merge it"):
        inspect_model(tmp_path)


def test_a_cut_weight_file_is_refused(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    file = model / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ModelError, match=rf"promises {len(whole)} bytes, the file has {len(whole) - 1}"):
        inspect_model(model)
    file.write_bytes(whole[:4])
    with pytest.raises(ModelError, match="cut or not safetensors"):
        inspect_model(model)
    file.write_bytes((2).to_bytes(8, "little") + b"[]" + whole)
    with pytest.raises(ModelError, match="header does not parse"):
        inspect_model(model)


def test_an_index_that_names_a_missing_shard_is_refused(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    weight_map = {"lm_head.weight": "model-00001-of-00002.safetensors", "x": "model-00002-of-00002.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelError, match=r"names model-00002-of-00002\.safetensors, which is missing"):
        inspect_model(model)
    weight_map["x"] = "model-00001-of-00002.safetensors"
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelError, match="names x, which is in none of its files"):
        inspect_model(model)


def test_pickled_weights_are_refused(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is pickle and never loaded"):
        inspect_model(model)


def test_a_head_must_match_the_tie_flag(llama: Path, tied_llama: Path, tmp_path: Path) -> None:
    require_language_model(inspect_model(llama))
    require_language_model(inspect_model(tied_llama))

    identical = copy_of(tied_llama, tmp_path / "identical")
    embedding = load_file(identical / "model.safetensors")["model.embed_tokens.weight"]
    edit_tensors(identical, lm_head__weight=embedding.clone())
    require_language_model(inspect_model(identical))

    different = copy_of(tied_llama, tmp_path / "different")
    edit_tensors(different, lm_head__weight=embedding + 1)
    with pytest.raises(ModelError, match=r"tie_word_embeddings is true .* lm_head\.weight differs from model\.embed"):
        require_language_model(inspect_model(different))

    headless = copy_of(llama, tmp_path / "headless")
    edit_tensors(headless, lm_head__weight=None)
    with pytest.raises(ModelError, match=r"tie_word_embeddings is false .* no lm_head\.weight"):
        require_language_model(inspect_model(headless))


def test_a_language_model_is_not_a_reward_model_and_the_other_way_round(llama: Path, reward_model: Path) -> None:
    with pytest.raises(ModelError, match="is a language model without a score head"):
        require_reward_model(inspect_model(llama), head="score")
    with pytest.raises(ModelError, match="is a LlamaForSequenceClassification, not a language model"):
        require_language_model(inspect_model(reward_model))


def test_a_score_head_has_one_output_and_no_bias(reward_model: Path, tmp_path: Path) -> None:
    two = copy_of(reward_model, tmp_path / "two")
    edit_tensors(two, score__weight=torch.zeros(2, 32))
    with pytest.raises(ModelError, match=r"score\.weight has shape \[2, 32\]; a reward model has one output"):
        require_reward_model(inspect_model(two), head="score")
    biased = copy_of(reward_model, tmp_path / "biased")
    edit_tensors(biased, score__bias=torch.zeros(1))
    with pytest.raises(ModelError, match=r"score\.bias is not read"):
        require_reward_model(inspect_model(biased), head="score")


def test_a_head_under_another_name_is_listed_and_accepted_when_named(reward_model: Path, tmp_path: Path) -> None:
    model = copy_of(reward_model, tmp_path / "model")
    edit_tensors(model, score__weight=None, value_head__weight=torch.zeros(1, 32))
    with pytest.raises(ModelError, match=r"other heads in it: value_head"):
        require_reward_model(inspect_model(model), head="score")
    require_reward_model(inspect_model(model), head="value_head")


def test_without_a_flag_the_tensors_tell_whether_the_head_is_tied(
    llama: Path, tied_llama: Path, tmp_path: Path
) -> None:
    for source, tied in ((llama, False), (tied_llama, True)):
        model = copy_of(source, tmp_path / str(tied))
        edit_config(model, tie_word_embeddings="ABSENT")
        assert inspect_model(model).tied is tied


@pytest.mark.parametrize("std", [-1, 0, 0.0, float("nan"), float("inf"), "a", True, [1.0]])
def test_a_std_of_scores_that_is_no_finite_number_above_0_is_refused(reward_model: Path, tmp_path: Path, std) -> None:
    model = copy_of(reward_model, tmp_path / "model")
    edit_config(model, rlhf_ray_score_std=std)
    with pytest.raises(ModelError, match=r"config\.json: rlhf_ray_score_std is .*; accepted: a finite number above 0"):
        inspect_model(model)


@pytest.mark.parametrize("mean", [float("nan"), float("-inf"), "0.5", False])
def test_a_mean_of_scores_that_is_no_finite_number_is_refused(reward_model: Path, tmp_path: Path, mean) -> None:
    model = copy_of(reward_model, tmp_path / "model")
    edit_config(model, rlhf_ray_score_mean=mean)
    with pytest.raises(ModelError, match=r"config\.json: rlhf_ray_score_mean is .*; accepted: a finite number$"):
        inspect_model(model)


def test_the_mean_of_scores_may_be_below_0_and_either_may_be_left_out(reward_model: Path, tmp_path: Path) -> None:
    model = copy_of(reward_model, tmp_path / "model")
    edit_config(model, rlhf_ray_score_mean=-3, rlhf_ray_score_std="ABSENT")
    found = inspect_model(model)
    assert (found.score_mean, found.score_std) == (-3.0, None)


def test_a_config_of_fewer_or_more_layers_than_are_stored_is_refused(llama: Path, gpt2: Path, tmp_path: Path) -> None:
    for source, key in ((llama, "num_hidden_layers"), (gpt2, "n_layer")):
        for named in (1, 3):
            model = copy_of(source, tmp_path / f"{key}-{named}")
            edit_config(model, **{key: named})
            with pytest.raises(ModelError, match=rf"names {named} layers .* the weights hold 2, numbered 0 to 1"):
                require_language_model(inspect_model(model))


def test_layers_that_predict_several_tokens_at_once_may_be_stored_beyond_the_others(
    llama: Path, tmp_path: Path
) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, num_hidden_layers=1, num_nextn_predict_layers=1)
    require_language_model(inspect_model(model))


def test_a_reward_model_is_held_to_its_layers_too(reward_model: Path, tmp_path: Path) -> None:
    model = copy_of(reward_model, tmp_path / "model")
    edit_config(model, num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"config\.json names 3 layers"):
        require_reward_model(inspect_model(model), head="score")


def test_a_width_other_than_the_embeddings_is_refused(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, hidden_size=16)
    with pytest.raises(ModelError, match=r"is 16 in config\.json but the embedding has shape \[64, 32\]"):
        require_language_model(inspect_model(model))
    edit_config(model, hidden_size=16, word_embed_proj_dim=32)
    require_language_model(inspect_model(model))


def test_a_config_without_its_family_is_refused(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, model_type="ABSENT")
    with pytest.raises(ModelError, match=r"config\.json has no model_type, .* the one of LlamaForCausalLM"):
        require_language_model(inspect_model(model))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", "32"),
        ("vocab_size", True),
        ("num_hidden_layers", -1),
        ("num_attention_heads", 0),
        ("max_position_embeddings", "64"),
        ("max_position_embeddings", 64.5),
        ("head_dim", 0),
    ],
)
def test_sizes_are_whole_numbers_above_0(llama: Path, tmp_path: Path, key: str, value: object) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, **{key: value})
    with pytest.raises(ModelError, match=rf"config\.json: {key} is {value!r}; accepted: a whole number above 0"):
        inspect_model(model)


def test_heads_share_the_width_evenly(llama: Path, tmp_path: Path) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, num_attention_heads=3, head_dim=None)
    with pytest.raises(ModelError, match=r"config\.json: 3 attention heads .* do not share a width of 32"):
        inspect_model(model)


@pytest.mark.parametrize(("key", "value"), [("architectures", "LlamaForCausalLM"), ("model_type", 5)])
def test_names_of_another_type_are_refused(llama: Path, tmp_path: Path, key: str, value: object) -> None:
    model = copy_of(llama, tmp_path / "model")
    edit_config(model, **{key: value})
    with pytest.raises(ModelError, match=rf"config\.json: {key} is {value!r}; accepted"):
        inspect_model(model)
