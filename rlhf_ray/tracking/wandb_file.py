"""Reads the files that W&B writes: run-<id>.wandb, a LevelDB log of protobuf records.

W&B 0.31 brings no reader. Framing: a header of 7 bytes, then blocks of 32 KiB of fragments, each with CRC-32, length
and type (whole, first, middle, last); fewer than 7 bytes at a block's end are padding.
(https://github.com/google/leveldb/blob/main/doc/log_format.md; W&B uses the plain CRC-32 of zlib.)
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2 as wandb_proto

from rlhf_ray.errors import DataError

_HEADER = b":W&B\xe1\xbe\x00"
_FRAGMENT = struct.Struct("<IHB")  # CRC-32 of type and data, length, type
_BLOCK_BYTES = 32768
_WHOLE, _LAST = 1, 4
_TYPES = (_WHOLE, 2, 3, _LAST)

Record = Any  # a protobuf message; W&B's generated classes have no types


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbAlert:
    """A message to the run's owner."""

    title: str
    text: str
    level: str  # INFO, WARN, ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbArtifact:
    """An artifact that the run declared as its product."""

    name: str
    kind: str
    aliases: tuple[str, ...]
    metadata: dict[str, Any]
    files: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class WandbRun:
    """All that one run's files hold."""

    run_id: str = ""
    name: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    sweep_id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)  # step -> values, nested as they were logged
    summary: dict[str, Any] = field(default_factory=dict)
    step_metrics: dict[str, str] = field(default_factory=dict)  # metric name or glob -> its x-axis
    alerts: list[WandbAlert] = field(default_factory=list)
    artifacts: list[WandbArtifact] = field(default_factory=list)
    used: list[str] = field(default_factory=list)  # names or ids of artifacts the run declared as its input
    exit_code: int | None = None  # None: goes on, or was killed

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The history in the order of its steps."""
        return [self.history[step] for step in sorted(self.history)]


def read_wandb_run(paths: Sequence[Path]) -> WandbRun:
    """The files of one run, oldest first, as one: where two of them hold the same step, the later one counts.

    Raises DataError for a file that is none of W&B's, that is damaged, or that belongs to another run.
    """
    run = WandbRun()
    for path in paths:
        run.exit_code = None
        for record in read_records(path):
            if record.WhichOneof("record_type") == "run" and run.run_id not in ("", record.run.run_id):
                raise DataError(f"{path} belongs to run {record.run.run_id}, not to {run.run_id}")
            _take(run, record)
    return run


def wandb_files(folder: Path) -> dict[str, list[Path]]:
    """The run files anywhere below a folder by run id, oldest first."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("run-*.wandb"), key=lambda path: path.parent.name):
        found.setdefault(path.stem.removeprefix("run-"), []).append(path)
    return found


def read_records(path: Path) -> Iterator[Record]:
    """Every complete record; what a killed writer left unfinished at the end is left out. Raises DataError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not content.startswith(_HEADER):
        raise DataError(f"{path} is no file of W&B: it begins with {content[: len(_HEADER)]!r} instead of {_HEADER!r}")
    for number, message in enumerate(_messages(content, path), start=1):
        record: Record = wandb_proto.Record()
        try:
            record.ParseFromString(message)
        except DecodeError as error:
            raise DataError(f"{path}: record {number} is not readable: {error}") from error
        yield record


def _messages(content: bytes, path: Path) -> Iterator[bytes]:
    position, parts = len(_HEADER), bytearray()
    while position + _FRAGMENT.size <= len(content):
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        if left < _FRAGMENT.size:
            position += left
            continue
        checksum, length, kind = _FRAGMENT.unpack_from(content, position)
        data = content[position + _FRAGMENT.size : position + _FRAGMENT.size + length]
        if len(data) < length:
            return
        if kind not in _TYPES or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            raise DataError(f"{path} is damaged at byte {position}")
        position += _FRAGMENT.size + length
        parts += data
        if kind in (_WHOLE, _LAST):
            yield bytes(parts)
            parts.clear()


def _take(run: WandbRun, record: Record) -> None:
    match record.WhichOneof("record_type"):
        case "run":
            _take_run(run, record.run)
        case "config":
            _put_all(run.config, record.config.update)
        case "history":
            _put_all(run.history.setdefault(record.history.step.num, {}), record.history.item)
        case "summary":
            _put_all(run.summary, record.summary.update)
        case "metric" if record.metric.step_metric:
            run.step_metrics[record.metric.name or record.metric.glob_name] = record.metric.step_metric
        case "alert":
            run.alerts.append(_alert(record.alert))
        case "artifact":
            run.artifacts.append(_artifact(record.artifact))
        case "use_artifact":
            run.used.append(record.use_artifact.name or record.use_artifact.id)
        case "exit":
            run.exit_code = record.exit.exit_code


def _take_run(run: WandbRun, record: Record) -> None:
    run.run_id, run.name, run.sweep_id = record.run_id, record.display_name, record.sweep_id
    run.project, run.group, run.job_type = record.project, record.run_group, record.job_type
    _put_all(run.config, record.config.update)


def _alert(record: Record) -> WandbAlert:
    return WandbAlert(title=record.title, text=record.text, level=record.level)


def _artifact(record: Record) -> WandbArtifact:
    return WandbArtifact(
        name=record.name,
        kind=record.type,
        aliases=tuple(record.aliases),
        metadata=json.loads(record.metadata or "{}"),
        files=tuple(entry.path for entry in record.manifest.contents),
    )


def _put_all(tree: dict[str, Any], items: Iterable[Any]) -> None:
    """Set the items of a config, history or summary record, each at its path of keys."""
    for item in items:
        *parents, name = item.nested_key or [item.key]
        place = tree
        for parent in parents:
            if not isinstance(place.get(parent), dict):
                place[parent] = {}
            place = place[parent]
        place[name] = json.loads(item.value_json)
