"""The header of a safetensors file: 8 bytes little-endian length, then JSON, then the tensors' bytes.

Read by hand because the safetensors library reports a damaged file without its name and gives no byte positions.
Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ModelError

LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """Where one tensor lies on disk."""

    shape: tuple[int, ...]
    dtype: str  # safetensors name: F32
    file: Path
    start: int  # bytes from the file's start
    num_bytes: int


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Names and places of all tensors. Raises ModelError when the file is damaged or shorter than it says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        prefix = stream.read(LENGTH_BYTES)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == LENGTH_BYTES else size
        if LENGTH_BYTES + length > size:
            raise ModelError(f"{file} is cut or not safetensors: {size} bytes cannot hold its header; copy it again")
        raw = stream.read(length)
    data_start = LENGTH_BYTES + length
    try:
        entries = json.loads(raw)
        entries.pop("__metadata__", None)
        tensors = {name: _stored(file, entry, data_start=data_start) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is damaged or not safetensors: its header does not parse ({error})") from error
    end = max((tensor.start + tensor.num_bytes for tensor in tensors.values()), default=data_start)
    if end > size:
        raise ModelError(f"{file} is cut: its header promises {end} bytes, the file has {size}; copy it again")
    return tensors


def _stored(file: Path, entry: dict[str, Any], *, data_start: int) -> StoredTensor:
    begin, end = entry["data_offsets"]
    return StoredTensor(
        shape=tuple(entry["shape"]),
        dtype=entry["dtype"],
        file=file,
        start=data_start + begin,
        num_bytes=end - begin,
    )
