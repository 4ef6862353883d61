"""Files become batches, a few rows at a time, and the same rows are held out every time."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data import tables
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.on_disk import RaggedFile
from rlhf_ray.data.tables import file_tables
from rlhf_ray.errors import DataError
from rlhf_ray.types import Ragged

LETTERS = "abcdefghij"


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def words(i, count):
    return " ".join(LETTERS[(i + k) % 10] for k in range(count))


def files_in(folder, *, num_rows=40, completions=None):
    prompts = write(folder / "p.jsonl", [{"prompt": words(i, 1 + i % 5)} for i in range(num_rows)])
    demos = write(folder / "d.jsonl", [{"prompt": words(i, 2), "response": words(i, 3)} for i in range(num_rows)])
    pairs = completions or [{"prompt": words(i, 2), "chosen": "a", "rejected": "b"} for i in range(num_rows)]
    return DataFiles(
        prompts=prompts,
        demonstrations=demos,
        preferences=write(folder / "c.jsonl", pairs),
        layout=layout_of(DataConfig()),
        held_out_share=0.1,
        on_bad_row="error",
        seed=1,
    )


def lengths(max_prompt_tokens=8, on_long_prompt="error"):
    return Lengths(
        max_prompt_tokens=max_prompt_tokens,
        max_new_tokens=8,
        max_answer_tokens=8,
        on_long_prompt=on_long_prompt,
        loss_on="answer",
    )


def as_lists(ragged):
    return [row.tolist() for row in ragged.rows()]


def test_every_row_is_in_one_part_under_its_line_number(tmp_path, bos_tokenizer):
    made = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert (len(made.prompts.ids), len(made.held_out_prompts.ids)) == (36, 4)
    assert {*made.prompts.ids, *made.held_out_prompts.ids} == {str(line) for line in range(1, 41)}
    for part in (made.prompts, made.held_out_prompts):
        assert part.texts == tuple(words(int(line) - 1, 1 + (int(line) - 1) % 5) for line in part.ids)
    assert len(made.demonstrations.train.row_counts) == 36
    assert made.preferences.held_out.rows_per_group == 2


def test_small_pieces_give_the_same_tables_as_one_large_one(tmp_path, bos_tokenizer, monkeypatch):
    whole = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    monkeypatch.setattr(tables, "PIECE_ROWS", 3)
    pieces = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert whole.fingerprint() == pieces.fingerprint()
    assert whole.notes == pieces.notes
    for a, b in ((whole.demonstrations, pieces.demonstrations), (whole.preferences, pieces.preferences)):
        assert as_lists(a.train.sequences.tokens) == as_lists(b.train.sequences.tokens)
        assert a.train.row_counts.tolist() == b.train.row_counts.tolist()
        assert a.train.sequences.prompt_lengths.tolist() == b.train.sequences.prompt_lengths.tolist()


def test_tokens_of_demonstrations_and_preferences_stay_in_files(tmp_path, bos_tokenizer):
    made = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert isinstance(made.demonstrations.train.sequences.tokens.values, np.memmap)
    assert isinstance(made.preferences.train.targets.labels.values, np.memmap)


def test_dropped_and_cut_prompts_are_counted(tmp_path, bos_tokenizer):
    made = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(4, on_long_prompt="drop"))
    assert made.notes[:2] == (
        f"{tmp_path / 'p.jsonl'}: kept 40, skipped 0",
        f"{tmp_path / 'p.jsonl'}: kept 24, dropped 16, cut 0 for their length",
    )
    cut = file_tables(
        files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(4, on_long_prompt="truncate_left")
    )
    assert "kept 40, dropped 0, cut 16" in cut.notes[1]
    assert max(cut.prompts.tokens.lengths) == 4


def test_dropping_every_row_is_refused(tmp_path, bos_tokenizer):
    with pytest.raises(DataError, match="no row left: kept 0, dropped 40"):
        file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(1, on_long_prompt="drop"))


def test_groups_of_one_size_stay_together(tmp_path, bos_tokenizer):
    rows = [{"prompt": "a", "completions": ["b", "c", "d"], "labels": [1, 0, 2]}] * 4
    made = file_tables(files_in(tmp_path, completions=rows), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert made.preferences.train.rows_per_group == 3
    assert made.preferences.train.row_counts.tolist()[:3] == [1, 0, 2]


def test_groups_of_different_sizes_become_pairs(tmp_path, bos_tokenizer):
    rows = [{"prompt": "a", "completions": ["b", "c", "d"], "labels": [1, 0, 2]}] * 3
    rows += [{"prompt": "a", "chosen": "e", "rejected": "f"}]
    made = file_tables(files_in(tmp_path, completions=rows), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert made.preferences.train.rows_per_group == 2
    num_pairs = (len(made.preferences.train.row_counts) + len(made.preferences.held_out.row_counts)) // 2
    assert num_pairs == 3 * 3 + 1
    assert set(made.preferences.train.row_counts.reshape(-1, 2).sum(axis=1).tolist()) == {1.0}


@given(parts=st.lists(st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=4), min_size=1, max_size=4))
def test_a_ragged_file_gives_back_every_row(parts):
    file = RaggedFile(np.int32)
    for part in parts:
        file.append(Ragged.from_rows(part, np.int32))
    assert as_lists(file.ragged()) == [row for part in parts for row in part]


def test_written_answers_may_be_longer_than_sampled_ones(tmp_path, bos_tokenizer):
    limits = Lengths(
        max_prompt_tokens=8, max_new_tokens=1, max_answer_tokens=4, on_long_prompt="error", loss_on="answer"
    )
    files = files_in(tmp_path)
    made = file_tables(files, bos_tokenizer, model_dir=tmp_path, lengths=limits)
    assert made.demonstrations.train.row_counts.tolist() == [4.0] * 36
