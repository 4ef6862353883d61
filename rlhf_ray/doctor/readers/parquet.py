"""Exported histories as Parquet."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.errors import DataError


def read_parquet(path: Path) -> RawLog:
    """All rows. Raises DataError for a file that is not Parquet, or is cut."""
    import pyarrow as pa  # noqa: PLC0415  only for this format
    import pyarrow.parquet as pq  # noqa: PLC0415  only for this format

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error})") from error
    raw = RawLog(format="Parquet")
    for batch in table.to_batches(max_chunksize=10_000):
        raw.add_rows(batch.to_pylist())
    return raw
