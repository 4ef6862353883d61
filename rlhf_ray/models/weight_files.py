"""The weights of a model directory, by their headers: one safetensors file, or shards and their index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from rlhf_ray.errors import ModelError
from rlhf_ray.models.json_object import read_json_object
from rlhf_ray.models.safetensors_header import StoredTensor, read_header

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
WEIGHT_TYPES = ("F64", "F32", "F16", "BF16")
COMPARE_BYTES = 1 << 24
# tables that older versions of transformers saved and that every family computes itself
_BUFFER = re.compile(r"(^|\.)(rotary_emb\.inv_freq|(attn|attention)\.(masked_)?bias|position_ids)$")


def is_buffer(name: str) -> bool:
    """Whether a tensor is a mask or a table of positions: stored by older files, read by nothing."""
    return _BUFFER.search(name) is not None


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """Names and places of all tensors of a directory.

    Raises ModelError for files that are missing, cut or not safetensors, an index that does not fit its shards, and
    weights that are not floating-point numbers.
    """
    tensors = _read_files(path)
    for name, tensor in tensors.items():
        if tensor.dtype not in WEIGHT_TYPES and not is_buffer(name):
            raise ModelError(
                f"{tensor.file}: {name} is stored as {tensor.dtype}; accepted: {', '.join(WEIGHT_TYPES)} "
                "(quantized weights cannot be trained)"
            )
    return tensors


def same_bytes(a: StoredTensor, b: StoredTensor) -> bool:
    """Whether two stored tensors are one by shape, type and content."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    with a.file.open("rb") as file_a, b.file.open("rb") as file_b:
        file_a.seek(a.start)
        file_b.seek(b.start)
        return all(
            _read(file_a, a.num_bytes - done) == _read(file_b, b.num_bytes - done)
            for done in range(0, a.num_bytes, COMPARE_BYTES)
        )


def _read(file: BinaryIO, left: int) -> bytes:
    return file.read(min(left, COMPARE_BYTES))


def _read_files(path: Path) -> dict[str, StoredTensor]:
    if (path / INDEX_FILE).is_file():
        return _read_shards(path)
    if (path / WEIGHTS_FILE).is_file():
        return read_header(path / WEIGHTS_FILE)
    shards, pickles = (sorted(file.name for file in path.glob(kind)) for kind in ("*.safetensors", "*.bin"))
    if shards:
        raise ModelError(
            f"{path} holds {shards[0]} ({len(shards)} such files) and no {INDEX_FILE}, which says what is in which; "
            f"copy that file there, too, or, if all weights are in one, name it {WEIGHTS_FILE}"
        )
    remedy = (
        f"{', '.join(pickles)} is pickle and never loaded: convert to safetensors" if pickles else "save weights there"
    )
    raise ModelError(f"{path} holds neither {WEIGHTS_FILE} nor {INDEX_FILE}; {remedy}")


def _read_shards(path: Path) -> dict[str, StoredTensor]:
    index = path / INDEX_FILE
    shard_of = _weight_map(index)
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(shard_of.values())):
        if not (path / shard).is_file():
            raise ModelError(f"{index} names {shard}, which is missing; copy the whole directory again")
        tensors |= read_header(path / shard)
    absent = sorted(set(shard_of) - set(tensors))
    if absent:
        raise ModelError(f"{index} names {absent[0]}, which is in none of its files ({len(absent)} absent)")
    for name, tensor in tensors.items():
        if name not in shard_of and not is_buffer(name):
            raise ModelError(f"{index} lacks {name}, which is in {tensor.file.name}; copy the whole directory again")
        if name in shard_of and shard_of[name] != tensor.file.name:
            raise ModelError(
                f"{index} says that {name} is in {shard_of[name]}, and it is in {tensor.file.name}; "
                "copy the whole directory again"
            )
    return tensors


def _weight_map(index: Path) -> Mapping[str, str]:
    """From each tensor to its file."""
    names: Any = read_json_object(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelError(f"{index} has no weight_map from tensors to files; copy the whole directory again")
    for name, shard in names.items():
        if not isinstance(shard, str) or not shard or Path(shard).name != shard:
            raise ModelError(f"{index}: {name} is in {shard!r}; accepted: the name of a file beside the index")
    return names
