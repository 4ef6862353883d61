"""Directories whose weight files are not what their index or their headers promise."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from rlhf_ray.errors import ModelError
from rlhf_ray.models.weight_files import INDEX_FILE, read_tensors

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def shards(tmp_path):
    """Two tensors in two files, and no index yet."""
    for name, shard in (("a.weight", FIRST), ("b.weight", SECOND)):
        save_file({name: np.zeros((2, 3), dtype=np.float32)}, tmp_path / shard)
    return tmp_path


def write_index(folder, weight_map):
    (folder / INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))


def test_shards_are_read_by_their_index(shards):
    write_index(shards, {"a.weight": FIRST, "b.weight": SECOND})
    assert {name: (t.shape, t.file.name) for name, t in read_tensors(shards).items()} == {
        "a.weight": ((2, 3), FIRST),
        "b.weight": ((2, 3), SECOND),
    }


def test_shards_without_an_index_are_told_as_that(shards):
    with pytest.raises(ModelError, match=rf"holds {FIRST} \(2 such files\) and no {INDEX_FILE}"):
        read_tensors(shards)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": {}}', '{"weight_map": []}'])
def test_an_index_without_its_map_is_refused(shards, content):
    (shards / INDEX_FILE).write_text(content)
    with pytest.raises(ModelError, match=rf"{INDEX_FILE} has no weight_map from tensors to files"):
        read_tensors(shards)


@pytest.mark.parametrize("place", [5, None, "../other/model.safetensors", "/model.safetensors", ""])
def test_an_index_names_files_beside_it(shards, place):
    write_index(shards, {"a.weight": FIRST, "b.weight": place})
    with pytest.raises(ModelError, match=rf"b\.weight is in {place!r}; accepted: the name of a file beside the index"):
        read_tensors(shards)


def test_an_index_that_names_the_wrong_shard_or_lacks_a_tensor_is_refused(shards):
    save_file({name: np.zeros(1, dtype=np.float32) for name in ("b.weight", "c.weight")}, shards / SECOND)
    write_index(shards, {"a.weight": FIRST, "b.weight": FIRST, "c.weight": SECOND})
    with pytest.raises(ModelError, match=rf"says that b\.weight is in {FIRST}, and it is in {SECOND}"):
        read_tensors(shards)
    write_index(shards, {"a.weight": FIRST, "b.weight": SECOND})
    with pytest.raises(ModelError, match=rf"lacks c\.weight, which is in {SECOND}"):
        read_tensors(shards)


def test_weights_are_floating_point_and_buffers_may_be_anything(tmp_path):
    file = tmp_path / "model.safetensors"
    buffers = {"h.0.attn.bias": np.ones((1, 2), dtype=np.uint8), "h.0.attn.masked_bias": np.ones(1, dtype=np.int64)}
    save_file(buffers | {"h.0.attn.c_attn.weight": np.zeros(2, dtype=np.float16)}, file)
    assert len(read_tensors(tmp_path)) == 3
    save_file(buffers | {"h.0.attn.c_attn.weight": np.zeros(2, dtype=np.int32)}, file)
    with pytest.raises(ModelError, match=r"c_attn\.weight is stored as I32; accepted: F64, F32, F16, BF16"):
        read_tensors(tmp_path)
