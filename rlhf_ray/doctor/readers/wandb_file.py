"""W&B's offline run files: protobuf records in LevelDB's log framing.

A file is a header of 7 bytes, then blocks of 32 KiB; a fragment is crc32 (4 bytes), length (2), type (1), data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog, flat_settings
from rlhf_ray.errors import DataError

MAGIC = b":W&B"
_HEADER, _BLOCK, _FRAGMENT = 7, 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_wandb_file(path: Path) -> RawLog:
    """History rows and configuration. Raises DataError where the package is missing or nothing was logged."""
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415  only for this format
        from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415  as above
    except ImportError as error:
        raise DataError(f"{path}: to read .wandb files, install wandb ({error})") from error
    raw = RawLog(format="W&B run file")
    for data in records(path.read_bytes()):
        try:
            record = Record.FromString(data)
        except DecodeError:
            raw.notes.append("a record is damaged: what follows it is left out")
            break
        match record.WhichOneof("record_type"):
            case "history":
                raw.add_row(_row(record.history))
            case "config":
                raw.settings |= _config(record.config)
            case "run":
                raw.settings |= _config(record.run.config)
    if not raw.num_rows:
        raise DataError(f"{path} holds no history: nothing was logged, or the file is cut at its start")
    return raw


def records(content: bytes) -> Iterator[bytes]:
    """The whole records; a cut last one is left out."""
    parts: list[bytes] = []
    place = _HEADER
    while place + _FRAGMENT <= len(content):
        left = _BLOCK - place % _BLOCK
        if left < _FRAGMENT:  # the end of a block is padded
            place += left
            continue
        length = int.from_bytes(content[place + 4 : place + 6], "little")
        kind = content[place + 6]
        data = content[place + _FRAGMENT : place + _FRAGMENT + length]
        place += _FRAGMENT + length
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or len(data) < length:
            return
        parts = [data] if kind in (_FULL, _FIRST) else [*parts, data]
        if kind in (_FULL, _LAST):
            yield b"".join(parts)


def _row(history: object) -> dict[str, object]:
    row = _items(history.item)  # type: ignore[attr-defined]  # a generated message without types
    row.setdefault("_step", history.step.num)  # type: ignore[attr-defined]  # as above
    return row


def _config(config: object) -> dict[str, object]:
    values = {name: value for name, value in _items(config.update).items() if name != "_wandb"}  # type: ignore[attr-defined]  # as above
    return flat_settings(values)


def _items(items: object) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in items:  # type: ignore[attr-defined]  # as above
        name = item.key or "/".join(item.nested_key)
        try:
            found[name] = json.loads(item.value_json)
        except ValueError:
            continue
    return found
