import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.read import read_demonstrations, read_preferences, read_prompts
from rlhf_ray.errors import DataError

SPECIAL = ("<pad>", "<bos>", "<eos>")
DAMAGED = [
    '{"prompt":"Name a colour."}',
    '{"prompt":"Name a fruit."',
    "",
    '{"question":"Name a river."}',
    '{"prompt":17}',
    '["Name a hill."]',
    '{"prompt":"Name a tree.","label":null}',
    '{"prompt":"Name a bird.","extra":{"k":[1,2]}}',
    '{"prompt":"Name a fish."}',
]
MOVED = [DAMAGED[3], *DAMAGED[:3], *DAMAGED[4:]]


def write(tmp_path, lines, *, newline="\n", start=""):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes((start + newline.join(lines)).encode())
    return path


PLAIN = replace(layout_of(DataConfig()), special_tokens=SPECIAL)


def rows_and_report(stream):
    rows = list(stream)
    return rows, stream.report


def strict(path):
    return rows_and_report(read_prompts(path, layout=PLAIN, on_bad_row="error"))


def lenient(path):
    return rows_and_report(read_prompts(path, layout=PLAIN, on_bad_row="skip"))


def bad_lines(report):
    return sorted(line for fault in report.faults for line in fault.lines)


VARIANTS = pytest.mark.parametrize(
    ("newline", "start"), [("\n", ""), ("\r\n", ""), ("\n", "\ufeff"), ("\r\n", "\ufeff")]
)


@VARIANTS
def test_strict_reading_lists_every_bad_line_with_its_reason(tmp_path, newline, start):
    path = write(tmp_path, DAMAGED, newline=newline, start=start)
    with pytest.raises(DataError) as refusal:
        strict(path)
    assert str(refusal.value).splitlines() == [
        f"{path}: 4 of 8 rows cannot be used (on_bad_row=skip would leave them out)",
        "  line 2: not valid JSON: Expecting ',' delimiter at column 26",
        '  line 4: no key "prompt" (the row has "question")',
        '  line 5: "prompt" is a number; accepted: a non-empty string',
        '  line 6: a list instead of an object with "prompt"',
    ]


@VARIANTS
def test_skipping_keeps_the_good_rows_under_their_line_numbers(tmp_path, newline, start):
    path = write(tmp_path, DAMAGED, newline=newline, start=start)
    rows, report = lenient(path)
    assert [(row.id, row.prompt) for row in rows] == [
        ("1", "Name a colour."),
        ("7", "Name a tree."),
        ("8", "Name a bird."),
        ("9", "Name a fish."),
    ]
    assert report.summary == f"{path}: kept 4, skipped 4"
    assert bad_lines(report) == [2, 4, 5, 6]


@VARIANTS
def test_keys_are_not_taken_from_the_first_row(tmp_path, newline, start):
    path = write(tmp_path, MOVED, newline=newline, start=start)
    rows, report = lenient(path)
    assert [row.id for row in rows] == ["2", "7", "8", "9"]
    assert bad_lines(report) == [1, 3, 5, 6]
    with pytest.raises(DataError, match=r"line 1: no key .*\n.*line 3: not valid JSON.*\n.*line 5: .*\n.*line 6: "):
        strict(path)


@pytest.mark.parametrize("read", [strict, lenient])
@pytest.mark.parametrize("content", ["\n", "\n \t\r\n", "\ufeff", '{"prompt":17}', "no JSON"])
def test_files_without_usable_rows_are_refused_in_both_modes(tmp_path, read, content):
    with pytest.raises(DataError, match="no usable row"):
        read(write(tmp_path, [content]))


@pytest.mark.parametrize("read", [strict, lenient])
def test_missing_files_directories_and_empty_files_are_refused(tmp_path, read):
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        read(tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match="a directory without Parquet or Arrow files"):
        read(tmp_path)
    with pytest.raises(DataError, match="the file is empty"):
        read(write(tmp_path, []))
    parquet = tmp_path / "rows.parquet"
    parquet.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="not readable as parquet"):
        read(parquet)


EMPTY = [
    ('""', "empty"),
    (r'"   \n"', "empty"),
    ("null", "null"),
    ("[]", "an empty list"),
    ('[{"role":"user","content":""}]', "a list of chat messages, and this file is read as plain text"),
    ('[{"role":"user","content":null}]', "a list of chat messages, and this file is read as plain text"),
    ('"<bos>"', "nothing but special tokens"),
    ('" <bos> <eos> "', "nothing but special tokens"),
    (r'"\ud800"', "not valid Unicode (a lone surrogate)"),
    ("true", "true or false"),
    ("{}", "an object"),
]


def test_strict_reading_refuses_empty_prompts_with_row_numbers_and_reasons(tmp_path):
    path = write(tmp_path, [*(f'{{"prompt":{value}}}' for value, _ in EMPTY), '{"prompt":"good"}'])
    with pytest.raises(DataError) as refusal:
        strict(path)
    assert str(refusal.value).splitlines()[1:] == [
        f'  {lines}: "prompt" is {reason}; accepted: a non-empty string'
        for lines, reason in (
            ("lines 1, 2", "empty"),
            ("line 3", "null"),
            ("line 4", "an empty list"),
            ("lines 5, 6", "a list of chat messages, and this file is read as plain text"),
            ("lines 7, 8", "nothing but special tokens"),
            ("line 9", "not valid Unicode (a lone surrogate)"),
            ("line 10", "true or false"),
            ("line 11", "an object"),
        )
    ]


def test_skipping_leaves_the_one_good_row(tmp_path):
    path = write(tmp_path, [*(f'{{"prompt":{value}}}' for value, _ in EMPTY), '{"prompt":"good"}'])
    rows, report = lenient(path)
    assert [(row.id, row.prompt) for row in rows] == [("12", "good")]
    assert report.summary == f"{path}: kept 1, skipped 11"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"prompt":"\xff"}', "not UTF-8 at byte 12 of the line"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"prompt":' + b"9" * 5_000 + b"}", "not usable JSON: Exceeds the limit"),
    ],
)
def test_lines_that_break_the_parser_are_bad_rows(tmp_path, line, reason):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(line + b'\n{"prompt":"good"}')
    _, report = lenient(path)
    assert bad_lines(report) == [1]
    assert reason in report.faults[0].reason


def test_a_repeated_key_is_a_bad_row_with_its_line_and_key(tmp_path):
    lines = ['{"prompt":"a"}', '{"prompt":"a","prompt":"b"}', '{"prompt":"a","x":[{"ü":1,"ü":2}]}']
    rows, report = lenient(write(tmp_path, lines))
    assert [row.prompt for row in rows] == ["a"]
    assert [(fault.lines, fault.reason) for fault in report.faults] == [
        ((2,), "not usable JSON: the key 'prompt' is there twice"),
        ((3,), "not usable JSON: the key 'ü' is there twice"),
    ]


def test_rows_with_one_fault_are_one_line_and_hide_no_other_fault(tmp_path):
    path = write(tmp_path, ["{}"] * 30 + ['{"prompt":7}', '{"prompt":"good"}'])
    with pytest.raises(DataError) as refusal:
        strict(path)
    named = ", ".join(str(line) for line in range(1, 21))
    assert str(refusal.value).splitlines()[1:] == [
        f'  lines {named} and 10 more: no key "prompt" (the row has no keys)',
        '  line 31: "prompt" is a number; accepted: a non-empty string',
    ]


def test_long_listings_are_cut_and_counted(tmp_path):
    path = write(tmp_path, [f'{{"x{i}":0}}' for i in range(30)] + ['{"prompt":"good"}'])
    with pytest.raises(DataError) as refusal:
        strict(path)
    assert str(refusal.value).splitlines()[-2:] == [
        '  line 20: no key "prompt" (the row has "x19")',
        "  and 10 more rows, for other reasons",
    ]


def test_repeated_rows_are_kept_under_different_ids(tmp_path):
    rows, _ = strict(write(tmp_path, ['{"prompt":"same"}'] * 2))
    assert [(row.id, row.prompt) for row in rows] == [("1", "same"), ("2", "same")]


def test_demonstrations_need_both_texts(tmp_path):
    path = write(tmp_path, ['{"prompt":"a","response":" b"}', '{"prompt":"a"}', '{"prompt":"a","response":""}'])
    rows, report = rows_and_report(read_demonstrations(path, layout=PLAIN, on_bad_row="skip"))
    assert [(row.id, row.prompt, row.response) for row in rows] == [("1", "a", " b")]
    assert [fault.reason for fault in report.faults] == [
        'no key "response" (the row has "prompt")',
        '"response" is empty; accepted: a non-empty string',
    ]


def test_preferences_need_two_different_answers(tmp_path):
    path = write(tmp_path, ['{"prompt":"a","chosen":"b","rejected":"c"}', '{"prompt":"a","chosen":"b","rejected":"b"}'])
    rows, report = rows_and_report(read_preferences(path, layout=PLAIN, on_bad_row="skip"))
    assert [(row.id, row.prompt, row.answers, row.labels) for row in rows] == [("1", "a", ("b", "c"), (1, 0))]
    assert [fault.reason for fault in report.faults] == ['"chosen" and "rejected" are the same text']


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["prompt", "x"]), inner, max_size=2),
    max_leaves=6,
)
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(values=st.lists(JSON, min_size=1, max_size=6))
@QUICK
def test_any_json_is_kept_exactly_when_its_prompt_is_text(tmp_path, values):
    path = write(tmp_path, [json.dumps(value) for value in values])
    good = {
        str(line): value["prompt"]
        for line, value in enumerate(values, start=1)
        if isinstance(value, dict) and isinstance(value.get("prompt"), str) and is_text(value["prompt"])
    }
    if not good:
        with pytest.raises(DataError, match="no usable row"):
            lenient(path)
        return
    rows, report = lenient(path)
    assert {row.id: row.prompt for row in rows} == good
    assert report.kept + report.num_skipped == len(values)


def is_text(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip())


@given(texts=st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), min_size=1, max_size=5))
@QUICK
def test_any_unicode_text_comes_back_unchanged_unescaped_or_escaped(tmp_path, texts):
    for ascii_only in (True, False):
        path = write(tmp_path, [json.dumps({"prompt": text}, ensure_ascii=ascii_only) for text in texts])
        rows = read_prompts(path, layout=layout_of(DataConfig()), on_bad_row="error")
        assert [row.prompt for row in rows] == texts


@given(data=st.binary(min_size=1, max_size=60))
@QUICK
def test_any_bytes_are_read_or_refused_by_our_own_error(tmp_path, data):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(data)
    try:
        rows, _ = lenient(path)
    except DataError:
        return
    assert all(row.prompt.strip() for row in rows)


def test_readers_load_no_heavy_library():
    program = (
        "import sys, rlhf_ray.data.read;"
        "print([name for name in ('torch', 'transformers', 'ray', 'vllm') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
