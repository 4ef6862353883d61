"""What is written to files comes back as it was."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.data.on_disk import BatchFile, RaggedFile, TextFile
from rlhf_ray.types import Ragged, Sequences, SftTargets, TrainBatch


@given(parts=st.lists(st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=4), min_size=1, max_size=4))
def test_a_ragged_file_gives_back_every_row(parts):
    file = RaggedFile(np.int32)
    for part in parts:
        file.append(Ragged.from_rows(part, np.int32))
    assert [row.tolist() for row in file.ragged().rows()] == [row for part in parts for row in part]


@given(parts=st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=4), max_size=4))
def test_texts_come_back_in_any_script_and_empty_ones_too(parts):
    file = TextFile()
    for part in parts:
        file.append(part)
    texts, written = file.texts(), [text for part in parts for text in part]
    assert len(texts) == len(written)
    assert texts.take(range(len(texts))) == tuple(written)
    assert [text for piece in texts.pieces() for text in piece] == written


def sft_batch(*rows):
    return TrainBatch(
        sequences=Sequences(tokens=Ragged.from_rows(rows, np.int32), prompt_lengths=np.ones(len(rows), dtype=np.int64)),
        targets=SftTargets(weights=Ragged.from_rows([[0.5] * (len(row) - 1) for row in rows], np.float32)),
        row_counts=np.array([len(row) - 1.0 for row in rows]),
        rows_per_group=1,
    )


def test_a_batch_written_in_parts_is_one_batch():
    file = BatchFile()
    for part in (sft_batch([7, 8], [9, 1, 2]), sft_batch(), sft_batch([3, 4])):
        file.append(part)
    batch = file.batch()
    assert [row.tolist() for row in batch.sequences.tokens.rows()] == [[7, 8], [9, 1, 2], [3, 4]]
    assert [row.tolist() for row in batch.targets.weights.rows()] == [[0.5], [0.5, 0.5], [0.5]]
    assert (batch.row_counts.tolist(), batch.sequences.prompt_lengths.tolist()) == ([1, 2, 1], [1, 1, 1])
