from __future__ import annotations

from rlhf_ray.generation.expected import expected_weights
from rlhf_ray.weight_sync.buckets import TensorMeta


def test_a_tied_model_is_sent_both_ends_and_no_buffers(model_folders):
    expected = expected_weights(model_folders["tied"], dtype="bfloat16")
    assert expected["model.embed_tokens.weight"] == TensorMeta((61, 32), "bfloat16")
    assert expected["lm_head.weight"] == TensorMeta((61, 32), "bfloat16")
    assert expected["model.layers.1.self_attn.k_proj.weight"] == TensorMeta((32, 32), "bfloat16")
    assert len(expected) == 21  # 2 x (4 attention + 3 MLP + 2 norms) + embedding, norm, head
    assert expected == expected_weights(model_folders["untied"], dtype="bfloat16")
