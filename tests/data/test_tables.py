"""Files become batches, a few rows at a time, and the same rows are held out every time."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data import tables
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.data.tables import file_tables
from rlhf_ray.errors import DataError

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
    assert (len(made.prompts), len(made.held_out_prompts)) == (36, 4)
    parts = [table.take(range(len(table))) for table in (made.prompts, made.held_out_prompts)]
    assert {row_id for part in parts for row_id in part.ids} == {str(line) for line in range(1, 41)}
    for part in parts:
        assert part.texts == tuple(words(int(line) - 1, 1 + (int(line) - 1) % 5) for line in part.ids)
    assert len(made.row_sets[RowSet.DEMONSTRATIONS].row_counts) == 36
    assert made.row_sets[RowSet.HELD_OUT_PREFERENCES].rows_per_group == 2


def test_small_pieces_give_the_same_tables_as_one_large_one(tmp_path, bos_tokenizer, monkeypatch):
    whole = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    monkeypatch.setattr(tables, "PIECE_ROWS", 3)
    pieces = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert whole.fingerprint == pieces.fingerprint
    assert whole.notes == pieces.notes
    assert [*whole.row_sets] == [*pieces.row_sets] == list(RowSet)
    for name, a in whole.row_sets.items():
        b = pieces.row_sets[name]
        assert as_lists(a.sequences.tokens) == as_lists(b.sequences.tokens)
        assert a.row_counts.tolist() == b.row_counts.tolist()
        assert a.sequences.prompt_lengths.tolist() == b.sequences.prompt_lengths.tolist()


def test_a_last_piece_without_rows_leaves_groups_of_three_as_they_are(tmp_path, bos_tokenizer, monkeypatch):
    monkeypatch.setattr(tables, "PIECE_ROWS", 3)
    rows = [{"prompt": "a", "completions": ["b", "c", "d"], "labels": [1, 0, 2]}] * 7
    files = replace(files_in(tmp_path, completions=rows), held_out_share=0.2)
    made = file_tables(files, bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert len(made.row_sets[RowSet.PREFERENCES].row_counts) == 6 * 3
    assert made.row_sets[RowSet.PREFERENCES].rows_per_group == 3


def test_what_is_made_of_rows_stays_in_files(tmp_path, bos_tokenizer):
    made = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    arrays = [made.prompts.ids.utf8, made.prompts.texts.utf8, made.prompts.tokens]
    for batch in made.row_sets.values():
        arrays += [batch.sequences.tokens]
        assert isinstance(batch.sequences.prompt_lengths, np.memmap)
        assert isinstance(batch.row_counts, np.memmap)
    for rows in arrays:
        assert isinstance(rows.values, np.memmap)
        assert isinstance(rows.offsets, np.memmap)


def test_dropped_and_cut_prompts_are_counted(tmp_path, bos_tokenizer):
    made = file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(4, on_long_prompt="drop"))
    assert made.notes[:2] == (
        f"prompts: {tmp_path / 'p.jsonl'}: kept 40, skipped 0",
        f"prompts: {tmp_path / 'p.jsonl'}: kept 24, dropped 16, cut 0 for their length",
    )
    cut = file_tables(
        files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(4, on_long_prompt="truncate_left")
    )
    assert "kept 40, dropped 0, cut 16" in cut.notes[1]
    assert max(cut.prompts.tokens.lengths) == 4


@pytest.mark.parametrize("piece_rows", [3, 2048])
def test_all_long_rows_of_a_file_are_told_at_once_with_the_longest(tmp_path, bos_tokenizer, monkeypatch, piece_rows):
    monkeypatch.setattr(tables, "PIECE_ROWS", piece_rows)
    with pytest.raises(DataError) as refusal:
        file_tables(files_in(tmp_path, num_rows=60), bos_tokenizer, model_dir=tmp_path, lengths=lengths(4))
    assert str(refusal.value) == (
        f"{tmp_path / 'p.jsonl'}: rows 4, 5, 9, 10, 14, 15, 19, 20, 24, 25, 29, 30, 34, 35, 39, 40, 44, 45, 49, 50 "
        "and 4 more are longer than max_prompt_tokens=4, the longest of them 6 tokens; "
        "accepted: a larger limit, or data.on_long_prompt=drop or truncate_left"
    )


def test_a_row_of_several_pairs_is_named_once(tmp_path, bos_tokenizer):
    long = words(0, 15)  # with its end token, behind <bos> a: 18
    rows = [
        {"prompt": "a", "completions": ["b", "c", long], "labels": [0, 0, 1]},
        {"prompt": "a", "completions": ["b", long], "labels": [0, 1]},
    ]
    expected = r"rows 1, 2 are longer than max_prompt_tokens \+ max_answer_tokens = 16, the longest of them 18 tokens"
    with pytest.raises(DataError, match=expected):
        file_tables(files_in(tmp_path, completions=rows), bos_tokenizer, model_dir=tmp_path, lengths=lengths())


def test_dropping_every_row_is_refused(tmp_path, bos_tokenizer):
    with pytest.raises(DataError, match="no row left: kept 0, dropped 40"):
        file_tables(files_in(tmp_path), bos_tokenizer, model_dir=tmp_path, lengths=lengths(1, on_long_prompt="drop"))


def test_groups_of_one_size_stay_together(tmp_path, bos_tokenizer):
    rows = [{"prompt": "a", "completions": ["b", "c", "d"], "labels": [1, 0, 2]}] * 4
    made = file_tables(files_in(tmp_path, completions=rows), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert made.row_sets[RowSet.PREFERENCES].rows_per_group == 3
    assert made.row_sets[RowSet.PREFERENCES].row_counts.tolist()[:3] == [1, 0, 2]


def test_groups_of_different_sizes_become_pairs(tmp_path, bos_tokenizer):
    rows = [{"prompt": "a", "completions": ["b", "c", "d"], "labels": [1, 0, 2]}] * 3
    rows += [{"prompt": "a", "chosen": "e", "rejected": "f"}]
    made = file_tables(files_in(tmp_path, completions=rows), bos_tokenizer, model_dir=tmp_path, lengths=lengths())
    assert made.row_sets[RowSet.PREFERENCES].rows_per_group == 2
    counts = [len(made.row_sets[name].row_counts) for name in (RowSet.PREFERENCES, RowSet.HELD_OUT_PREFERENCES)]
    assert sum(counts) // 2 == 3 * 3 + 1
    assert set(made.row_sets[RowSet.PREFERENCES].row_counts.reshape(-1, 2).sum(axis=1).tolist()) == {1.0}


def test_written_answers_may_be_longer_than_sampled_ones(tmp_path, bos_tokenizer):
    limits = Lengths(
        max_prompt_tokens=8, max_new_tokens=1, max_answer_tokens=4, on_long_prompt="error", loss_on="answer"
    )
    files = files_in(tmp_path)
    made = file_tables(files, bos_tokenizer, model_dir=tmp_path, lengths=limits)
    assert made.row_sets[RowSet.DEMONSTRATIONS].row_counts.tolist() == [4.0] * 36
