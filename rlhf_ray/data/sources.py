"""Rows with their numbers from files of several formats, a batch at a time: JSON Lines, Parquet, Arrow, data sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_ray.data.jsonl import BadRow, JsonRow, read_jsonl
from rlhf_ray.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

HUB = "hf:"
HUB_FORMS = f"{HUB}NAME, {HUB}NAME:SPLIT or {HUB}NAME:CONFIGURATION:SPLIT"
_BETWEEN_PARTS = re.compile(r":(?![^\[]*\])")  # not the colon of train[:100]
BATCH_ROWS = 1024
ARROW_SUFFIXES = (".arrow", ".feather")
TABLE_SUFFIXES = (".parquet", *ARROW_SUFFIXES)


def numbered_rows(source: Path) -> Iterator[JsonRow | BadRow]:
    """Rows counted from 1 (JSON Lines: the line's number). DataError for a source that is not there or not readable."""
    name = hub_name(source)
    if name is not None:
        return _number(_hub_batches(name))
    if not source.exists():
        raise DataError(f"{source}: no such file")
    if source.is_dir():
        return _number(_folder_batches(source))
    if not source.is_file():
        raise DataError(f"{source}: not a file; accepted: JSON Lines, Parquet or Arrow")
    if source.stat().st_size == 0:
        raise DataError(f"{source}: the file is empty")
    if source.suffix in TABLE_SUFFIXES:
        return _number(_table_batches(source))
    return read_jsonl(source)


def hub_name(source: Path) -> str | None:
    """The data set's name, where the source is one."""
    text = str(source)
    return text.removeprefix(HUB) if text.startswith(HUB) else None


def _number(batches: Iterable[list[dict[str, Any]]]) -> Iterator[JsonRow | BadRow]:
    line = 0
    for batch in batches:
        for value in batch:
            line += 1
            yield JsonRow(line=line, value=value)


def _folder_batches(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """The tables of a saved data set, in the order of their names."""
    files = sorted(file for file in folder.iterdir() if file.suffix in TABLE_SUFFIXES)
    if not files:
        raise DataError(
            f"{folder}: a directory without Parquet or Arrow files; accepted: JSON Lines, Parquet, Arrow, "
            "or one split's directory of a saved data set"
        )
    for file in files:
        yield from _table_batches(file)


def _table_batches(file: Path) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa  # noqa: PLC0415  JSON Lines, the usual case, needs no pyarrow

    try:
        for batch in _arrow_batches(file):
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: not readable as {file.suffix[1:]}: {error}") from error


def _arrow_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Parquet row group by row group; Arrow files and streams through a memory map."""
    import pyarrow as pa  # noqa: PLC0415  as above
    import pyarrow.parquet as pq  # noqa: PLC0415  as above

    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(batch_size=BATCH_ROWS)
        return
    with pa.memory_map(str(file)) as source:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            yield from pa.ipc.open_stream(source)
            return
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def _hub_batches(name: str) -> Iterator[list[dict[str, Any]]]:
    """A data set by name, through the package `datasets`, memory-mapped from its cache."""
    try:
        import datasets  # noqa: PLC0415  an extra
    except ImportError as error:
        raise DataError(
            f"{HUB}{name} needs the package datasets: pip install --no-deps -r requirements-demo.lock"
        ) from error
    path, configuration, split = _hub_parts(name)
    try:
        table = datasets.load_dataset(path, configuration, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{HUB}{name}: cannot be loaded: {error}; accepted: {HUB_FORMS}") from error
    for start in range(0, len(table), BATCH_ROWS):
        columns = table[start : start + BATCH_ROWS]
        yield [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _hub_parts(name: str) -> tuple[str, str | None, str]:
    """Path, configuration (None: the only one there is) and split of a data set."""
    path, *rest = _BETWEEN_PARTS.split(name)
    if not path or not all(rest) or len(rest) > 2:
        raise DataError(f"{HUB}{name} names no data set; accepted: {HUB_FORMS}")
    *configurations, split = rest or ["train"]
    return path, configurations[0] if configurations else None, split
