"""Prompts are read by row, and rows are found by id."""

import zlib

import numpy as np
import pytest

from rlhf_ray.data.on_disk import TextFile
from rlhf_ray.data.prompt_table import RowIndex, prompt_table
from rlhf_ray.types import Prompts, Ragged


def prompts(**tokens):
    return Prompts(
        ids=tuple(tokens),
        texts=tuple(f"text of {name}" for name in tokens),
        tokens=Ragged.from_rows(list(tokens.values()), np.int32),
    )


def test_prompts_of_several_parts_are_taken_by_row_in_the_order_named():
    table = prompt_table([prompts(a=[1], b=[2, 3]), prompts(), prompts(c=[4, 5, 6])])
    assert len(table) == 3
    taken = table.take([2, 0, 2])
    assert taken.ids == ("c", "a", "c")
    assert taken.texts == ("text of c", "text of a", "text of c")
    assert [row.tolist() for row in taken.tokens.rows()] == [[4, 5, 6], [1], [4, 5, 6]]


def index_of(*ids):
    file = TextFile()
    file.append(ids)
    return RowIndex(file.texts())


def test_rows_are_found_by_id_where_checksums_are_the_same_too():
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    index = index_of("17", "plumless", "2", "buckeroo", "")
    assert [index.row(row_id) for row_id in ("2", "buckeroo", "plumless", "17", "")] == [2, 3, 1, 0, 4]


@pytest.mark.parametrize("ids", [(), ("plumless",)])
def test_an_id_that_is_not_there_has_no_row(ids):
    with pytest.raises(KeyError, match="buckeroo"):
        index_of(*ids).row("buckeroo")
