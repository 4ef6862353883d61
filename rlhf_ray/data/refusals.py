"""Which rows a tokenizer and the limits would refuse, by the functions that encode them for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rlhf_ray.data.encode import LengthReport
from rlhf_ray.data.file_rows import FileRows
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.read import RowStream
from rlhf_ray.data.rows import DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.data.tables import Encoder, encode_all, in_pairs
from rlhf_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Row = TypeVar("Row", PromptRow, DemonstrationRow, PreferenceRow)


def refusals(
    files: DataFiles, tokenizer: PreTrainedTokenizerBase, *, model_dir: Path, lengths: Lengths
) -> Iterator[str]:
    """What is wrong with each file that cannot be trained on. Rows are read and forgotten."""
    encoder = Encoder(tokenizer, lengths=lengths)
    rows = FileRows(files, tokenizer, model_dir=model_dir)
    demonstrations, groups = rows.demonstrations(), rows.preferences()
    yield from _refusal("prompts", rows.prompts(), encoder.prompts, files)
    if demonstrations is not None:
        yield from _refusal("demonstrations", demonstrations, encoder.demonstrations, files)
    if groups is not None:
        try:
            encode = partial(encoder.preferences, as_pairs=in_pairs(groups))
        except DataError as error:
            yield f"data.preferences: {error}"
            return
        yield from _refusal("preferences", groups, encode, files)


def _refusal(
    name: str, rows: RowStream[Row], encode: Callable[[list[Row]], tuple[object, LengthReport]], files: DataFiles
) -> Iterator[str]:
    """The first piece of the file that is refused says why."""
    try:
        encode_all(rows, encode, files, append=lambda _held_out, _piece: None)
    except DataError as error:
        yield f"data.{name}: {error}"
