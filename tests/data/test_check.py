"""What `python -m rlhf_ray.data check` finds and says."""

import copy
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.check import Plan, check_file
from rlhf_ray.data.layout import layout_of
from rlhf_ray.errors import DataError


def plan(tokenizer=None, **changes):
    return Plan(
        layout=replace(layout_of(DataConfig()), **changes),
        tokenizer=tokenizer,
        loss_on="answer",
        held_out_share=0.5,
        seed=1,
        num_examples=5,
    )


def write(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def shown(example):
    return "".join(f"[{piece.text}]" if piece.trained else piece.text for piece in example.pieces)


def test_the_most_demanding_kind_is_found(tmp_path):
    pair = {"prompt": "a", "chosen": " b", "rejected": " c"}
    for kind, row in (
        ("prompts", {"prompt": "a"}),
        ("demonstrations", {"prompt": "a", "response": " b"}),
        ("preferences", pair),
    ):
        assert check_file(write(tmp_path / f"{kind}.jsonl", row, row), plan(), kind=None).kind == kind
    assert check_file(write(tmp_path / "pairs.jsonl", pair), plan(), kind="prompts").kind == "prompts"


def test_bad_lines_are_counted_and_named(tmp_path):
    check = check_file(write(tmp_path / "p.jsonl", {"prompt": "a"}, {"prompt": 17}, []), plan(), kind="prompts")
    assert (check.report.kept, check.report.num_skipped) == (1, 2)
    assert [fault.lines for fault in check.report.faults] == [(2,), (3,)]


def test_rows_that_the_models_template_refuses_are_bad_lines_too(tmp_path, chat_tokenizer):
    strict = copy.deepcopy(chat_tokenizer)
    strict.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
    strict.chat_template += chat_tokenizer.chat_template
    user = {"role": "user", "content": "a"}
    file = write(tmp_path / "p.jsonl", {"prompt": [{"role": "system", "content": "b"}, user]}, {"prompt": [user]})
    check = check_file(file, plan(strict, format="chat"), kind="prompts")
    assert (check.report.kept, check.report.num_skipped) == (1, 1)
    assert (check.report.faults[0].lines, "no system turn" in check.report.faults[0].reason) == ((1,), True)


def test_rows_in_both_parts_are_named_by_their_lines(tmp_path):
    check = check_file(write(tmp_path / "p.jsonl", *[{"prompt": "same"}] * 4), plan(), kind="prompts")
    assert check.num_repeated == 3
    assert len(check.shared) == 1
    assert set(check.shared[0]) <= {"1", "2", "3", "4"}
    different = check_file(write(tmp_path / "q.jsonl", *({"prompt": str(i)} for i in range(4))), plan(), kind="prompts")
    assert (different.num_repeated, different.shared) == (0, ())


def test_examples_show_what_is_trained_on(tmp_path, bos_tokenizer):
    file = write(tmp_path / "d.jsonl", {"prompt": "a b", "response": "c"}, {"prompt": "d", "response": "e f"})
    check = check_file(file, plan(bos_tokenizer), kind=None)
    assert [shown(example) for example in check.examples] == ["<bos> a b[c <eos>]", "<bos> d[e f <eos>]"]
    assert check.lengths.tolist() == [5, 5]


def test_every_answer_of_a_comparison_is_shown_with_its_label(tmp_path, bos_tokenizer):
    file = write(tmp_path / "c.jsonl", {"prompt": "a", "completions": ["b", "c d", "e"], "labels": [0, 2, 1]})
    check = check_file(file, plan(bos_tokenizer), kind=None)
    assert [(example.label, shown(example)) for example in check.examples] == [
        (0.0, "<bos> a[b <eos>]"),
        (2.0, "<bos> a[c d <eos>]"),
        (1.0, "<bos> a[e <eos>]"),
    ]
    assert check.lengths.tolist() == [5]


def test_without_a_tokenizer_characters_are_counted(tmp_path):
    check = check_file(write(tmp_path / "d.jsonl", {"prompt": "ab", "response": " c"}), plan(), kind=None)
    assert check.lengths.tolist() == [4]
    assert shown(check.examples[0]) == "ab[ c]"


def test_a_file_without_usable_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no usable row"):
        check_file(write(tmp_path / "p.jsonl", {"x": 1}), plan(), kind=None)


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "rlhf_ray.data", "check", *map(str, words)], capture_output=True, text=True, timeout=120
    )


def test_the_command_says_what_it_found_and_with_which_code(tmp_path):
    good = write(tmp_path / "good.jsonl", {"prompt": "a"}, {"prompt": "b"})
    bad = write(tmp_path / "bad.jsonl", {"prompt": "a"}, {"prompt": 17})
    done = run(good)
    assert done.returncode == 0, done.stderr
    assert "good.jsonl: prompts" in done.stdout.replace("\n", "")
    done = run(good, bad)
    assert done.returncode == 1
    assert 'line 2: "prompt" is a number' in done.stdout
    done = run(tmp_path / "missing.jsonl")
    assert done.returncode == 2
    assert "no such file" in " ".join(done.stdout.split())


def test_prompts_of_one_file_that_another_holds_out_are_told(tmp_path):
    rows = [{"prompt": str(i)} for i in range(10)]
    first = write(tmp_path / "a.jsonl", *rows)
    second = write(tmp_path / "b.jsonl", *reversed(rows))
    told = " ".join(run(first, second, "--held-out-share", 0.3).stdout.split())
    assert "prompts trained on in" in told
    alone = " ".join(run(first).stdout.split())
    assert "prompts trained on in" not in alone
