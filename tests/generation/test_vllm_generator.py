"""What is vLLM's own: how its engine takes a load that goes wrong inside it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

GREEDY = {"temperature": 0.0, "max_tokens": 8, "logprobs": 0, "detokenize": False, "ignore_eos": True}


@pytest.fixture(scope="module")
def llm(model_folders, in_own_process, vllm_settings):
    """A bare engine with our transfer engine in it, before any weights came."""
    return in_own_process(
        "rlhf_ray.generation.vllm_generator:start_engine", model_folders["untied"], settings=vllm_settings
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.1.mlp.up_proj.weight", (47, 32)),
        ("model.norm.weight", (33,)),
        ("model.layers.0.self_attn.rope.weight", (4,)),
    ],
)
def test_a_load_that_fails_inside_vllm_is_healed_by_sending_everything(llm, model_folders, name, shape):
    from vllm import SamplingParams

    model = LlamaForCausalLM.from_pretrained(model_folders["untied"]).eval()
    tensors = list(model.state_dict().items())
    bad = [*((key, tensor) for key, tensor in tensors[:8] if key != name), (name, torch.zeros(shape))]
    llm.start_weight_update()
    with pytest.raises((AssertionError, RuntimeError, ValueError, KeyError)):
        llm.update_weights({"update_info": {"tensors": bad}})

    llm.start_weight_update()
    llm.update_weights({"update_info": {"tensors": tensors[:5]}})
    llm.update_weights({"update_info": {"tensors": tensors[5:]}})
    llm.finish_weight_update(weight_version="7")
    [request] = llm.generate([{"prompt_token_ids": [7, 8, 9]}], SamplingParams(**GREEDY), use_tqdm=False)
    answer = request.outputs[0]
    assert [dataclasses.astuple(span) for span in answer.weight_versions] == [("7", 0, 8)]
    with torch.no_grad():
        logits = model(torch.tensor([[7, 8, 9, *answer.token_ids]])).logits[0, 2:-1]
    expected = torch.log_softmax(logits, dim=-1).max(dim=-1).values.numpy()
    drawn = [entry[token].logprob for token, entry in zip(answer.token_ids, answer.logprobs, strict=True)]
    np.testing.assert_allclose(drawn, expected, atol=1e-5, rtol=0)
