"""The digest is over all rows, whatever is in memory at once."""

import hashlib

import numpy as np
import pytest

from rlhf_ray.data import fingerprint as module
from rlhf_ray.data import on_disk
from rlhf_ray.data.fingerprint import fingerprint
from rlhf_ray.data.prompt_table import prompt_table
from rlhf_ray.types import Prompts, Ragged, Sequences, SftTargets, TrainBatch

TOKENS = Ragged.from_rows([[1, 2], [3], [4, 5, 6]], np.int32)


def table(*ids):
    return prompt_table([Prompts(ids=ids, texts=ids, tokens=TOKENS)])


def batch():
    return TrainBatch(
        sequences=Sequences(tokens=TOKENS, prompt_lengths=np.ones(3, dtype=np.int64)),
        targets=SftTargets(weights=TOKENS),
        row_counts=np.ones(3),
        rows_per_group=1,
    )


@pytest.mark.parametrize("at_once", [1, 2, 1 << 20])
def test_it_is_over_ids_then_tokens_then_where_rows_end(monkeypatch, at_once):
    monkeypatch.setattr(module, "CHUNK", at_once)
    monkeypatch.setattr(on_disk, "PIECE_TEXTS", at_once)
    rows = np.array([1, 2, 3, 4, 5, 6], dtype=np.int32).tobytes() + np.array([0, 2, 3, 6], dtype=np.int64).tobytes()
    expected = hashlib.blake2b(b"a\nb\nc" + b"h1\nh2\nh3" + rows * 3, digest_size=16).hexdigest()
    assert fingerprint([table("a", "b", "c"), table("h1", "h2", "h3")], [batch()]) == expected


def test_other_ids_or_other_rows_have_another():
    ours = fingerprint([table("a", "b", "c")], [batch()])
    assert fingerprint([table("a", "b", "d")], [batch()]) != ours
    assert fingerprint([table("a", "b", "c")], []) != ours
