"""Directories whose config and weights are of two models: told from names and shapes alone, and again at the load."""

import json
import shutil

import pytest
import torch
from architectures import ARCHITECTURES, write_architecture
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from rlhf_ray.errors import ModelError
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.load import HeadStart, load_language_model, load_scalar_model
from rlhf_ray.models.pretrained import from_directory, require_fit


@pytest.fixture
def copied(llama, tmp_path):
    return shutil.copytree(llama, tmp_path / "copied")


def change_config(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def change_tensors(folder, **changes):
    file = folder / "model.safetensors"
    tensors = load_file(file) | {name.replace("__", "."): tensor for name, tensor in changes.items()}
    save_file({name: t for name, t in tensors.items() if t is not None}, file, metadata={"format": "pt"})


def refused_before_and_at_the_load(folder, match, auto_class=AutoModelForCausalLM):
    directory = inspect_model(folder)
    with pytest.raises(ModelError, match=match):
        require_fit(auto_class, directory)
    with pytest.raises(ModelError, match=match):
        from_directory(auto_class, directory, dtype=torch.float32)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_models_that_transformers_wrote_fit_as_language_and_as_scalar_models(tmp_path, family):
    directory = inspect_model(write_architecture(tmp_path / family, family))
    require_fit(AutoModelForCausalLM, directory)
    require_fit(AutoModelForSequenceClassification, directory)


def test_a_tensor_that_the_class_does_not_use_is_refused_by_name(copied):
    change_tensors(copied, foo__bar=torch.zeros(3))
    refused_before_and_at_the_load(copied, r"holds 1 tensors that its LlamaForCausalLM .* no use for, first foo\.bar")


def test_a_layer_that_the_class_does_not_use_is_refused_by_name(copied):
    change_config(copied, num_hidden_layers=1)
    refused_before_and_at_the_load(copied, r"holds 9 tensors .* first model\.layers\.1\.input_layernorm\.weight")


def test_a_tensor_that_the_class_needs_is_missed_by_name(copied):
    change_tensors(copied, model__norm__weight=None)
    refused_before_and_at_the_load(copied, r"lacks 1 tensors of its LlamaForCausalLM, first model\.norm\.weight")


def test_a_config_of_another_family_is_refused(copied):
    change_config(copied, model_type="bert", architectures=["BertForMaskedLM"])
    refused_before_and_at_the_load(copied, r"lacks \d+ tensors of its BertForMaskedLM, first bert\.embeddings")


def test_an_unknown_family_and_its_own_code_are_refused(copied):
    change_config(copied, model_type="foo", auto_map={"AutoConfig": "own.Config"})
    refused_before_and_at_the_load(copied, r"knows no model_type 'foo', and code that comes .* is never run; accepted")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("max_position_embeddings", None, "'max_position_embeddings' expected int, got NoneType"),
        ("num_attention_heads", 3, r"hidden size \(32\) is not a multiple of the number of attention heads \(3\)"),
        ("hidden_act", "nothing", "does not load: .*nothing"),
    ],
)
def test_a_config_that_its_class_refuses_is_told_in_one_line(copied, key, value, reason):
    change_config(copied, head_dim=8)
    change_config(copied, **{key: value})
    refused_before_and_at_the_load(copied, reason)


def test_a_width_between_layers_other_than_stored_is_refused(copied):
    change_config(copied, intermediate_size=48)
    with pytest.raises(ModelError, match=r"layers\.\d\.mlp\.\w+\.weight has shape \[.*\] and its LlamaForCausalLM"):
        require_fit(AutoModelForCausalLM, inspect_model(copied))


def test_heads_of_other_uses_and_old_buffers_may_lie_in_the_directory(copied):
    change_tensors(
        copied,
        v_head__summary__weight=torch.zeros(1, 32),
        v_head__summary__bias=torch.zeros(1),
        model__layers__0__self_attn__rotary_emb__inv_freq=torch.zeros(4),
    )
    require_fit(AutoModelForCausalLM, inspect_model(copied))
    load_language_model(copied, dtype=torch.float32)
    load_scalar_model(copied, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float32)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(copied, value):
    weight = load_file(copied / "model.safetensors")["model.layers.1.mlp.up_proj.weight"]
    weight[0, 0] = value
    change_tensors(copied, model__layers__1__mlp__up_proj__weight=weight)
    reason = r"model\.layers\.1\.mlp\.up_proj\.weight holds values that are not finite"
    with pytest.raises(ModelError, match=reason):
        load_language_model(copied, dtype=torch.float32)
    with pytest.raises(ModelError, match=reason):
        load_scalar_model(copied, start=HeadStart.ZERO, head="score", seed=0, dtype=torch.float32)
