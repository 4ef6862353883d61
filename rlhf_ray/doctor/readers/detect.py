"""Which reader a path needs: told by its content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlhf_ray.doctor.raw import RawLog
from rlhf_ray.doctor.readers.csv import read_csv
from rlhf_ray.doctor.readers.json_file import read_json
from rlhf_ray.doctor.readers.jsonl import parse, read_jsonl
from rlhf_ray.doctor.readers.parquet import read_parquet
from rlhf_ray.doctor.readers.run_dir import log_in, read_run_dir
from rlhf_ray.doctor.readers.tensorboard import read_event_files
from rlhf_ray.doctor.readers.wandb_file import MAGIC, read_wandb_file
from rlhf_ray.doctor.runlog import RunLog
from rlhf_ray.doctor.translate import run_log
from rlhf_ray.errors import DataError

_REMEDIES = {  # by the first bytes
    b"\x1f\x8b": "compressed: unpack it first (gunzip)",
    b"\x28\xb5\x2f\xfd": "compressed: unpack it first (unzstd)",
    b"\xfd7zXZ": "compressed: unpack it first (unxz)",
    b"BZh": "compressed: unpack it first (bunzip2)",
    b"PK\x03\x04": "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
}
_LARGEST_JSON = 1 << 29  # a single value larger than this is not a log


def read_log(path: Path, given: Mapping[str, str]) -> RunLog:
    """A run's metrics under our names. `given`: columns named by the user (--map).

    Raises DataError for what cannot be read, ConfigError for a `given` that does not fit.
    """
    try:
        raw = _read(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise DataError(f"{path} is larger than the memory there is") from error
    return run_log(raw, source=str(path), given=given)


def _read(path: Path) -> RawLog:
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if not path.is_dir():
        return _read_file(path)
    if (path / "run.json").exists():
        return read_run_dir(path)
    files, note = log_in(path)
    if "tfevents" in files[0].name:
        raw = read_event_files(files)
    elif files[0].name == "metrics.jsonl" and files[0].with_name("run.json").exists():
        raw = read_run_dir(files[0].parent)
    else:
        raw = _read_file(files[0])
    raw.notes.append(note)
    return raw


def _read_file(path: Path) -> RawLog:
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; write what comes out of it to a file, and give that")
    if "tfevents" in path.name:
        return read_event_files([path])
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.strip():
        raise DataError(f"{path} is empty")
    if head.startswith(MAGIC):
        return read_wandb_file(path)
    if head.startswith(b"PAR1"):
        return read_parquet(path)
    for start, remedy in _REMEDIES.items():
        if head.startswith(start):
            raise DataError(f"{path} is {remedy}")
    if _share_of_text(head) < 0.9:
        raise DataError(
            f"{path} is binary and none of the formats that are read: TensorBoard event files (*tfevents*), W&B .wandb "
            "files, Parquet"
        )
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    if not text.startswith(("{", "[")):
        return read_csv(path)
    return _read_json(path, text)


def _read_json(path: Path, head: str) -> RawLog:
    """Lines of objects, or one value over many lines."""
    if head.startswith("{") and isinstance(parse(head.splitlines()[0]), dict) and len(head.splitlines()) > 1:
        return read_jsonl(path)
    if path.stat().st_size <= _LARGEST_JSON:
        value = parse(path.read_text(encoding="utf-8-sig", errors="replace"))
        if value is not None:
            return read_json(value, path)
    return read_jsonl(path)


def _share_of_text(head: bytes) -> float:
    text = head.decode("utf-8", errors="replace")
    return sum(character.isprintable() or character in "\t\r\n" for character in text if character != "\ufffd") / len(
        text
    )
