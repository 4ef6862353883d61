"""Rows as the larger experiments read them, on made rows."""

import json

import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.data.tables import file_tables

POST = {"subreddit": "tifu", "title": "The film Anna chose", "post": "The hotel was superb.\nThe piano was old."}


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def tables(folder, tokenizer, config, rows, *, max_prompt_tokens, loss_on="answer"):
    file = write(folder / "rows.jsonl", rows)
    files = DataFiles(
        prompts=file,
        demonstrations=file,
        preferences=file if config.format == "tldr" else None,
        layout=layout_of(config),
        held_out_share=0.5,
        on_bad_row="error",
        seed=1,
    )
    lengths = Lengths(
        max_prompt_tokens=max_prompt_tokens,
        max_new_tokens=200,
        max_answer_tokens=200,
        on_long_prompt="drop",
        loss_on=loss_on,
    )
    return file_tables(files, tokenizer, model_dir=folder, lengths=lengths)


def test_tldr_rows_end_with_the_question_and_summaries_with_the_end_token(tmp_path, tokenizer):
    row = POST | {"summary": "It was superb.", "chosen": "Superb hotel.", "rejected": "A piano."}
    made = tables(tmp_path, tokenizer, DataConfig(format="tldr"), [row] * 2, max_prompt_tokens=512, loss_on="all")
    query = (
        "SUBREDDIT: r/tifu\n\nTITLE: The film Anna chose\n\nPOST: The hotel was superb.\nThe piano was old.\n\nTL;DR:"
    )
    assert tokenizer.decode(made.prompts.tokens.row(0)) == query
    demonstration = made.row_sets[RowSet.DEMONSTRATIONS]
    assert tokenizer.decode(demonstration.sequences.tokens.row(0)) == f"{query} It was superb.<eos>"
    assert demonstration.row_counts[0] == len(demonstration.sequences.tokens.row(0)) - 1
    assert [tokenizer.decode(ids) for ids in made.row_sets[RowSet.PREFERENCES].sequences.tokens.rows()] == [
        f"{query} Superb hotel.<eos>",
        f"{query} A piano.<eos>",
    ]


def test_a_long_post_is_cut_at_a_paragraph_and_keeps_its_question(tmp_path, tokenizer):
    short = "SUBREDDIT: r/tifu\n\nTITLE: The film Anna chose\n\nPOST: The hotel was superb.\n\nTL;DR:"
    limit = len(tokenizer.encode(short))
    row = POST | {"summary": "x", "chosen": "y", "rejected": "z"}
    made = tables(tmp_path, tokenizer, DataConfig(format="tldr"), [row] * 2, max_prompt_tokens=limit)
    assert tokenizer.decode(made.prompts.tokens.row(0)) == short
    assert made.prompts.tokens.lengths.max() == limit


@pytest.fixture
def qwen_like(tokenizer):
    """The built-in tokenizer with the template of Qwen2.5, its end token in place of theirs."""
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<eos>' + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    import copy

    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    return other


def test_word_problems_are_asked_by_a_user_and_answered_up_to_the_end_token(tmp_path, qwen_like):
    config = DataConfig(
        format="instruction", prompt_column="question", response_column="answer", system_prompt="Reason."
    )
    rows = [{"question": f"What is {i} + 1?", "answer": f"It is {i + 1}.\n#### {i + 1}"} for i in range(4)]
    made = tables(tmp_path, qwen_like, config, rows, max_prompt_tokens=256)
    row = int(made.row_sets[RowSet.DEMONSTRATIONS].row_counts.argmax())
    text = qwen_like.decode(made.row_sets[RowSet.DEMONSTRATIONS].sequences.tokens.row(row))
    assert text.startswith("<|im_start|>system\nReason.<eos>\n<|im_start|>user\nWhat is ")
    assert "<|im_start|>assistant\nIt is " in text
    assert text.endswith("<eos>")
    assert not text.endswith("<eos><eos>")
