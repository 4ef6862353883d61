"""What is in memory does not grow with the files."""

import json
import tracemalloc

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data import fingerprint, on_disk, retokenize, row_sets, tables
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.order import epoch_order
from rlhf_ray.data.read import read_prompts
from rlhf_ray.data.retokenize import Retokenizer
from rlhf_ray.data.row_sets import size_of, take_rows
from rlhf_ray.data.tables import file_tables

LETTERS = "abcdefghij"
LENGTHS = Lengths(max_prompt_tokens=8, max_new_tokens=8, max_answer_tokens=8, on_long_prompt="drop", loss_on="answer")
PIECE = 100  # rows in memory at once, so that a few thousand are many
FEW, MANY = 600, 3_600  # rows of each file
BYTES_A_ROW = 40  # order of a shuffled epoch, which rows are held out, checksums of ids


def write_files(folder, num_rows):
    """As many prompts, demonstrations and pairs."""
    names = ("prompts", "demonstrations", "preferences")
    for name in names:
        with (folder / f"{name}.jsonl").open("w") as file:
            for i in range(num_rows):
                text = " ".join(LETTERS[(i + k) % 10] for k in range(4))
                row = {"prompt": text, "response": text, "chosen": text, "rejected": "a"}
                file.write(json.dumps(row) + "\n")
    return DataFiles(
        **{name: folder / f"{name}.jsonl" for name in names},
        layout=layout_of(DataConfig()),
        held_out_share=0.5,
        on_bad_row="error",
        seed=1,
    )


def peak_bytes(folder, tokenizer, num_rows):
    """While files are read, fingerprinted, handed out in order and at random, and read in another tokenizer's ids."""
    folder.mkdir()
    files = write_files(folder, num_rows)
    prompts = read_prompts(files.prompts, layout=files.layout, on_bad_row="error")
    tracemalloc.start()
    made = file_tables(files, tokenizer, model_dir=folder, lengths=LENGTHS)
    assert len(made.prompts) + len(made.held_out_prompts) == num_rows
    assert len(made.fingerprint) == 32
    for batch in made.row_sets.values():
        handed = [len(take_rows(batch, rows).row_counts) for rows in size_of(batch).pieces()]
        assert sum(handed) == len(batch.row_counts)
    few = epoch_order(len(made.prompts), seed=1, epoch=0)[:PIECE]
    assert len(made.prompts.take(few).texts) == PIECE
    Retokenizer(prompts, tokenizer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_six_times_the_rows_take_a_few_bytes_a_row_more(tmp_path, bos_tokenizer, monkeypatch):
    monkeypatch.setattr(tables, "PIECE_ROWS", PIECE)
    monkeypatch.setattr(retokenize, "PIECE_ROWS", PIECE)
    monkeypatch.setattr(on_disk, "PIECE_TEXTS", PIECE)
    monkeypatch.setattr(row_sets, "HANDED_TOKENS", PIECE * 8)
    monkeypatch.setattr(fingerprint, "CHUNK", PIECE * 8)
    peak_bytes(tmp_path / "first", bos_tokenizer, 2 * PIECE)  # imports and first allocations
    few, many = (peak_bytes(tmp_path / str(count), bos_tokenizer, count) for count in (FEW, MANY))
    assert many - few < BYTES_A_ROW * (MANY - FEW), (few, many)


def test_keeping_ids_texts_and_tokens_of_prompts_alone_would_be_caught(tmp_path, bos_tokenizer):
    files = write_files(tmp_path, MANY)
    made = file_tables(files, bos_tokenizer, model_dir=tmp_path, lengths=LENGTHS)
    tracemalloc.start()
    kept = made.prompts.take(range(len(made.prompts)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held > 3 * BYTES_A_ROW * len(kept.ids)
