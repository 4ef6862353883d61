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


def test_pairs_can_be_looked_at_as_prompts(tmp_path):
    pair = {"prompt": "a", "chosen": " b", "rejected": " c"}
    check = check_file(write(tmp_path / "pairs.jsonl", pair), plan(), kind="prompts")
    assert [shown(example) for example in check.examples] == ["a"]


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
    check = check_file(file, plan(bos_tokenizer), kind="demonstrations")
    assert [shown(example) for example in check.examples] == ["<bos> a b[c <eos>]", "<bos> d[e f <eos>]"]
    assert check.prompt_lengths.tolist() == [3, 2]
    assert check.answer_lengths.tolist() == [2, 3]


@pytest.mark.parametrize("loss_on", ["answer", "all"])
def test_the_lengths_are_those_that_the_limits_are_set_by_whatever_is_trained_on(tmp_path, bos_tokenizer, loss_on):
    file = write(tmp_path / "d.jsonl", {"prompt": "a b", "response": "c"})
    check = check_file(file, replace(plan(bos_tokenizer), loss_on=loss_on), kind="demonstrations")
    assert (check.prompt_lengths.tolist(), check.answer_lengths.tolist()) == ([3], [2])


def test_prompts_have_no_lengths_of_answers(tmp_path, bos_tokenizer):
    check = check_file(write(tmp_path / "p.jsonl", {"prompt": "a b"}), plan(bos_tokenizer), kind="prompts")
    assert (check.prompt_lengths.tolist(), check.answer_lengths.tolist()) == ([3], [])


def test_every_answer_of_a_comparison_is_shown_with_its_label(tmp_path, bos_tokenizer):
    file = write(tmp_path / "c.jsonl", {"prompt": "a", "completions": ["b", "c d", "e"], "labels": [0, 2, 1]})
    check = check_file(file, plan(bos_tokenizer), kind="preferences")
    assert [(example.answer, shown(example)) for example in check.examples] == [
        ("label 0", "<bos> a[b <eos>]"),
        ("label 2", "<bos> a[c d <eos>]"),
        ("label 1", "<bos> a[e <eos>]"),
    ]
    assert (check.prompt_lengths.tolist(), check.answer_lengths.tolist()) == ([2], [2, 3, 2])


@pytest.mark.parametrize("with_model", [False, True])
def test_the_answers_of_a_pair_are_called_as_in_the_file(tmp_path, bos_tokenizer, with_model):
    file = write(tmp_path / "c.jsonl", {"prompt": "a", "chosen": "g", "rejected": "h"})
    check = check_file(file, plan(bos_tokenizer if with_model else None), kind="preferences")
    assert [(example.answer, "g" in shown(example)) for example in check.examples] == [
        ("chosen", True),
        ("rejected", False),
    ]


def test_without_a_tokenizer_characters_are_counted(tmp_path):
    check = check_file(write(tmp_path / "d.jsonl", {"prompt": "ab", "response": " c"}), plan(), kind="demonstrations")
    assert (check.prompt_lengths.tolist(), check.answer_lengths.tolist()) == ([2], [2])
    assert shown(check.examples[0]) == "ab[ c]"


def test_a_file_without_usable_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no usable row"):
        check_file(write(tmp_path / "p.jsonl", {"x": 1}), plan(), kind="prompts")


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


def test_a_misspelt_key_is_told_and_does_not_make_prompts_of_preferences(tmp_path):
    done = run(write(tmp_path / "pref.jsonl", {"prompt": "a", "chosen": "b", "reject": "c"}))
    told = " ".join(done.stdout.split())
    assert done.returncode == 2
    assert 'preferences, guessed, for line 1 has "chosen" (--kind to change)' in told
    assert 'line 1: no key "rejected" (the row has "prompt", "chosen", "reject")' in told


def test_lengths_of_prompts_and_answers_are_shown_apart(tmp_path):
    rows = [{"prompt": "p" * 10, "response": "r" * 3}, {"prompt": "p" * 20, "response": "r" * 7}]
    told = run(write(tmp_path / "d.jsonl", *rows)).stdout
    lines = {line.split()[1]: line.split()[3::2] for line in told.splitlines() if line.startswith("│ ")}
    assert (lines["prompts"][0], lines["prompts"][-1]) == ("10", "20")
    assert (lines["answers"][0], lines["answers"][-1]) == ("3", "7")


def test_a_model_without_a_chat_template_is_told_once_before_any_row(tmp_path, bos_tokenizer):
    bos_tokenizer.save_pretrained(tmp_path / "model")
    user, answer = ({"role": role, "content": "a"} for role in ("user", "assistant"))
    chats = write(tmp_path / "chat.jsonl", *[{"messages": [user, answer]}] * 20)
    pairs = write(tmp_path / "pref.jsonl", {"prompt": [user], "chosen": [answer], "rejected": "b"})
    done = run(chats, pairs, "--format", "chat", "--model", tmp_path / "model")
    told = " ".join(done.stdout.split())
    assert done.returncode == 2
    assert told.startswith("chat rows need a chat template and the tokenizer has none")
    assert (told.count("chat rows need"), "jsonl" in told) == (1, False)


def test_prompts_of_one_file_that_another_holds_out_are_told(tmp_path):
    rows = [{"prompt": str(i)} for i in range(10)]
    first = write(tmp_path / "a.jsonl", *rows)
    second = write(tmp_path / "b.jsonl", *reversed(rows))
    told = " ".join(run(first, second, "--held-out-share", 0.3).stdout.split())
    assert "prompts trained on in" in told
    alone = " ".join(run(first).stdout.split())
    assert "prompts trained on in" not in alone
