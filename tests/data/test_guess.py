"""What the rows of a file are taken for."""

import json

import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.guess import guess_kind
from rlhf_ray.data.layout import layout_of
from rlhf_ray.errors import DataError

USER, ANSWER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
DIALOGUE = "\n\nHuman: a\n\nAssistant:"


def guess(tmp_path, *rows, **data):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    found = guess_kind(file, layout_of(DataConfig(**data)))
    return found.kind, found.reason


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "a"}, ("prompts", "none of the first 20 lines has an answer")),
        ({"prompt": "a", "response": "b"}, ("demonstrations", 'line 1 has "response"')),
        ({"prompt": "a", "completion": "b"}, ("demonstrations", 'line 1 has "completion"')),
        ({"prompt": "a", "response": "b", "labels": [1]}, ("demonstrations", 'line 1 has "response"')),
        ({"prompt": "a", "rejected": "b", "response": "c"}, ("preferences", 'line 1 has "rejected"')),
        ({"prompt": "a", "completions": ["b", "c"], "labels": [0, 1]}, ("preferences", 'line 1 has "completions"')),
        ({"prompt": "a", "labels": [0, 1]}, ("preferences", 'line 1 has "labels"')),
    ],
)
def test_keys_say_what_rows_are(tmp_path, row, expected):
    assert guess(tmp_path, row) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "a", "chose": "b", "reject": "c"}, ("preferences", 'line 1 has "chose", a key like "chosen"')),
        (
            {"prompt": "a", "Rejected_Response": "b"},
            ("preferences", 'line 1 has "Rejected_Response", a key like "rejected"'),
        ),
        ({"prompt": "a", "respones": "b"}, ("demonstrations", 'line 1 has "respones", a key like "response"')),
        ({"question": "a", "answer": "b"}, ("demonstrations", 'line 1 has "answer", a key like "answer"')),
    ],
)
def test_a_key_that_is_only_like_one_of_an_answer_is_no_sign_of_prompts(tmp_path, row, expected):
    assert guess(tmp_path, row) == expected


@pytest.mark.parametrize("row", [{"prompt": "a", "response_tokens": 3}, {"prompt": "a", "source": "chess"}])
def test_other_keys_and_numbers_are_no_answers(tmp_path, row):
    assert guess(tmp_path, row)[0] == "prompts"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"messages": [USER, ANSWER]}, "demonstrations"),
        ({"messages": [USER]}, "prompts"),
        ({"messages": []}, "prompts"),
        ({"messages": [USER, ANSWER], "prompt": [USER]}, "prompts"),
        ({"messages": f"{DIALOGUE} b"}, "demonstrations"),
        ({"messages": DIALOGUE}, "prompts"),
    ],
)
def test_the_last_turn_of_a_conversation_says_what_it_is(tmp_path, row, kind):
    assert guess(tmp_path, row, format="chat")[0] == kind


def test_columns_have_the_names_that_they_are_given(tmp_path):
    row = {"question": "a", "reply": "b"}
    assert guess(tmp_path, row)[0] == "prompts"
    assert guess(tmp_path, row, response_column="reply") == ("demonstrations", 'line 1 has "reply"')


def test_lines_that_are_no_rows_say_nothing(tmp_path):
    assert guess(tmp_path, "no JSON", "[]", {"prompt": "a", "chosen": "b"}) == ("preferences", 'line 3 has "chosen"')


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        guess_kind(tmp_path / "nowhere.jsonl", layout_of(DataConfig()))
