"""TensorBoard event files: scalars, as written by torch and by TensorFlow 2."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.errors import DataError

_DOUBLE = 2  # TensorFlow's number of float64


def read_event_files(paths: Sequence[Path]) -> RawLog:
    """All scalars of the files, in the order of their names; one row a step of a file.

    Raises DataError where the package is missing or no file holds a scalar. A cut last record is left out.
    """
    raw = RawLog(format="TensorBoard event files" if len(paths) > 1 else "TensorBoard event file")
    for path in sorted(paths, key=lambda path: path.name):
        rows: dict[int, dict[str, object]] = {}
        for step, name, value in _scalars(path):
            rows.setdefault(step, {"step": step})[name] = value
        raw.add_rows(rows.values())
    if not raw.num_rows:
        raise DataError(f"{paths[0]} holds no scalar that can be read")
    return raw


def _scalars(path: Path) -> Iterator[tuple[int, str, float]]:
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415  only for this format
        from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader  # noqa: PLC0415  as above
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  as above
    except ImportError as error:
        raise DataError(f"{path}: to read TensorBoard event files, install tensorboard ({error})") from error
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    for record in RawEventFileLoader(str(path)).Load():
        try:
            event = Event.FromString(record)
        except DecodeError:
            return
        for value in event.summary.value:
            number = _number(value)
            if number is not None:
                yield event.step, value.tag, number


def _number(value: object) -> float | None:
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]  # a generated message without types
    if kind == "simple_value":
        return float(value.simple_value)  # type: ignore[attr-defined]  # as above
    if kind != "tensor":
        return None
    tensor = value.tensor  # type: ignore[attr-defined]  # as above
    numbers = [*tensor.float_val, *tensor.double_val]
    if not numbers and len(tensor.tensor_content) in (4, 8):
        kind_of = np.float64 if tensor.dtype == _DOUBLE else np.float32
        numbers = np.frombuffer(tensor.tensor_content, dtype=kind_of).tolist()
    return float(numbers[0]) if len(numbers) == 1 else None
