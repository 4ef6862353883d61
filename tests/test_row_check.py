"""Rows that a tokenizer, a template or the limits refuse are told before Ray starts and before a model loads."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from architectures import VOCABULARY, write_architecture

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.file_rows import FileRows
from rlhf_ray.data.files import files_of, lengths_of
from rlhf_ray.data.tables import file_tables
from rlhf_ray.data.tokenizer import load_tokenizer
from rlhf_ray.row_check import row_problems

STRICT = "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
LOSSY = "{% for m in messages %}{% if m['role'] != 'system' %}"
TURN = "{{ m['role'] }} {{ m['content'] }} </s> "
ASK = "{% if add_generation_prompt %}assistant{% endif %}"
SYSTEM, USER = {"role": "system", "content": "w6"}, {"role": "user", "content": "w7"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_architecture(tmp_path_factory.mktemp("models") / "llama", "llama")


def write_rows(file, *rows):
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(file)


def words(count):
    return " ".join(VOCABULARY[6 + i % 20] for i in range(count))


@pytest.fixture
def config(tmp_path, model):
    """Prompts of 15, 16, 17 and 400 ids, BOS included; at most 16 are accepted."""
    config = TrainConfig(stages=["sft", "reward_model", "ppo"], run_dir=str(tmp_path / "run"))
    config.model.path = str(model)
    config.data.prompts = write_rows(tmp_path / "p.jsonl", *({"prompt": words(n - 1)} for n in (15, 16, 17, 400)))
    config.data.max_prompt_tokens, config.algorithm.max_new_tokens = 16, 8
    return config


def chat(config, tmp_path, template, *turns):
    folder = shutil.copytree(config.model.path, tmp_path / "chat-model")
    (folder / "chat_template.jinja").write_text(template)
    config.model.path = str(folder)
    config.data.format = "chat"
    config.data.prompts = write_rows(tmp_path / "c.jsonl", {"prompt": [USER]}, {"prompt": turns}, {"prompt": [USER]})


def test_long_prompts_are_refused_by_their_rows(config):
    (message,) = row_problems(config)
    assert message.startswith(f"data.prompts: {config.data.prompts}: rows 3, 4 are longer than max_prompt_tokens=16")
    assert "data.on_long_prompt=drop or truncate_left" in message


@pytest.mark.parametrize("choice", ["drop", "truncate_left"])
def test_long_prompts_that_may_go_or_be_cut_are_none_the_less_fine(config, choice):
    config.data.on_long_prompt = choice
    assert row_problems(config) == []


@pytest.mark.parametrize("name", ["prompts", "demonstrations"])
def test_one_row_alone_is_refused_since_none_can_be_held_out(config, tmp_path, name):
    row = {"prompt": "w6", "response": "w7"}
    config.data.prompts = write_rows(tmp_path / "prompts.jsonl", row, row)
    setattr(config.data, name, write_rows(tmp_path / f"{name}.jsonl", row))
    (message,) = row_problems(config)
    assert message == (
        f"data.{name}: {tmp_path}/{name}.jsonl: no row left for evaluation: kept 1, dropped 0, cut 0 for their length, "
        "held_out_share=0.1; accepted are at least two rows, one of them held out"
    )


def test_rows_that_are_all_held_out_leave_nothing_to_train_on(config, tmp_path):
    """Of two rows the longer one is dropped; the seed decides which of them is held out."""
    config.data.on_long_prompt = "drop"
    config.data.prompts = write_rows(tmp_path / "two.jsonl", {"prompt": words(40)}, {"prompt": words(4)})
    told = set()
    for config.seed in range(1, 9):
        (message,) = row_problems(config)
        told.add(message.partition("no row left ")[2].partition(":")[0])
    assert told == {"to train on", "for evaluation"}


def test_a_file_of_which_nothing_is_left_is_refused(config):
    config.data.on_long_prompt, config.data.max_prompt_tokens = "drop", 2
    (message,) = row_problems(config)
    assert "no row left: kept 0, dropped 4" in message


def test_every_file_is_told_with_its_rows(config, tmp_path):
    config.data.max_prompt_tokens = 400
    long = words(500)
    config.data.demonstrations = write_rows(
        tmp_path / "d.jsonl", {"prompt": "w6", "response": "w7"}, {"prompt": "w6", "response": long}
    )
    pair = {"prompt": "w6", "chosen": "w7", "rejected": "w8"}
    config.data.preferences = write_rows(tmp_path / "c.jsonl", pair, pair, pair | {"rejected": long})
    first, second = row_problems(config)
    assert first.startswith(f"data.demonstrations: {tmp_path / 'd.jsonl'}: rows 2 are longer")
    assert second.startswith(f"data.preferences: {tmp_path / 'c.jsonl'}: rows 3 are longer")


def test_groups_of_answers_of_different_sizes_are_measured_as_pairs(config, tmp_path):
    config.data.on_long_prompt = "drop"
    config.data.preferences = write_rows(
        tmp_path / "c.jsonl",
        {"prompt": "w6", "completions": ["w7", "w8"], "labels": [1, 0]},
        {"prompt": "w6", "completions": ["w7", "w8", "w9"], "labels": [2, 1, 0]},
    )
    assert row_problems(config) == []


def test_a_prompt_of_special_tokens_alone_is_empty(config, tmp_path):
    config.data.prompts = write_rows(tmp_path / "e.jsonl", {"prompt": "w6"}, {"prompt": "<s> <s>"}, {"prompt": "w7"})
    (message,) = row_problems(config)
    assert "line 2: " in message
    config.data.on_bad_row = "skip"
    assert row_problems(config) == []


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (STRICT + TURN + "{% endfor %}" + ASK, "row 2: the chat template refuses a conversation with the roles system"),
        (LOSSY + TURN + "{% endif %}{% endfor %}" + ASK, "row 2: the chat template leaves out the system turn"),
    ],
)
def test_a_template_that_refuses_or_loses_a_turn_is_told_with_the_row(config, tmp_path, template, reason):
    chat(config, tmp_path, template, SYSTEM, USER)
    (message,) = row_problems(config)
    assert message.startswith(f"data.prompts: {tmp_path / 'c.jsonl'}: {reason}")


def test_rows_that_the_template_refuses_are_skipped_on_request_and_counted(config, tmp_path):
    chat(config, tmp_path, STRICT + TURN + "{% endfor %}" + ASK, SYSTEM, USER)
    (message,) = row_problems(config)
    assert message.endswith("no system turns (on_bad_row=skip would leave it out)")
    config.data.on_bad_row = "skip"
    answer = {"role": "assistant", "content": "w8"}
    config.data.demonstrations = write_rows(
        tmp_path / "d.jsonl",
        {"messages": [SYSTEM, USER, answer]},
        {"messages": [USER, answer]},
        {"messages": []},
        {"messages": [USER, answer]},
    )
    pair = {"chosen": [answer], "rejected": "w9"}
    config.data.preferences = write_rows(
        tmp_path / "q.jsonl",
        {"prompt": [USER], **pair},
        {"prompt": [SYSTEM, USER], **pair},
        {"prompt": [USER], **pair},
    )
    assert row_problems(config) == []
    folder = Path(config.model.path)
    made = file_tables(files_of(config), load_tokenizer(folder), model_dir=folder, lengths=lengths_of(config))
    assert [note for note in made.notes if "skipped" in note] == [
        f"prompts: {tmp_path / 'c.jsonl'}: kept 2, skipped 1",
        f"demonstrations: {tmp_path / 'd.jsonl'}: kept 2, skipped 2",
        f"preferences: {tmp_path / 'q.jsonl'}: kept 2, skipped 1",
    ]
    assert (made.fates.kept, made.fates.skipped) == (6, 4)
    rows = FileRows(files_of(config), load_tokenizer(folder), model_dir=folder).demonstrations()
    assert [row.id for row in rows] == ["2", "4"]
    assert [(fault.lines, fault.reason.partition(":")[0]) for fault in rows.report.faults] == [
        ((1,), "the chat template refuses a conversation with the roles system, user"),
        ((3,), '"messages" is an empty list; accepted'),
    ]


def test_answers_whose_end_does_not_end_generation_are_refused(config, tmp_path):
    chat(config, tmp_path, "{% for m in messages %}" + TURN.replace("</s>", "<s>") + "{% endfor %}" + ASK, USER)
    (message,) = row_problems(config)
    assert f"model.path={config.model.path}: answers end with <s> (id 1)" in message
    assert "add 1 to eos_token_id" in message


def test_a_reward_model_that_cannot_render_the_prompts_is_told_before_the_first_stage(config, tmp_path):
    everything = "{% for m in messages %}" + TURN + "{% endfor %}" + ASK
    chat(config, tmp_path, everything, SYSTEM, USER)
    assert row_problems(config) == []
    reward = shutil.copytree(config.model.path, tmp_path / "reward")
    tokenizer = json.loads((reward / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["another"] = len(VOCABULARY)
    (reward / "tokenizer.json").write_text(json.dumps(tokenizer))
    (reward / "chat_template.jinja").write_text(STRICT + TURN + "{% endfor %}" + ASK)
    config.reward.path = str(reward)
    for config.data.on_bad_row in ("error", "skip"):
        (message,) = row_problems(config)
        assert message.startswith(f"reward.path={reward} cannot read data.prompts=")
        assert "row 2: the chat template refuses" in message
        assert message.endswith("data.on_bad_row=skip does not leave out such rows")


def test_a_model_made_from_the_files_is_checked_with_the_tokenizer_it_will_get(config, tmp_path):
    config.model.path = None
    config.data.on_long_prompt = "error"
    config.data.prompts = write_rows(tmp_path / "t.jsonl", {"prompt": "abc"}, {"prompt": "abc def " * 300})
    (message,) = row_problems(config)
    assert "rows 2 are longer than max_prompt_tokens=16" in message


def test_the_program_ends_with_code_2_and_one_message_before_ray_or_a_model(tmp_path, model):
    long = write_rows(tmp_path / "long.jsonl", {"prompt": "w6"}, {"prompt": words(40)})
    code = (
        "import sys; from rlhf_ray.train import main; code = main(sys.argv[1:]);"
        "print(code, *sorted({'ray', 'vllm', 'rlhf_ray.models.load', 'rlhf_ray.pipeline'} & set(sys.modules)))"
    )
    asked = ["data=files", f"model.path={model}", f"data.prompts={long}", "data.max_prompt_tokens=16"]
    asked += ["stages=[sft]", f"data.demonstrations={long}", "data.response_column=prompt", "run_dir=run"]
    result = subprocess.run(
        [sys.executable, "-c", code, *asked], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.stdout.splitlines() == ["2"], result.stderr
    assert result.stderr.startswith("error: 2 problems\n")
    assert f"data.prompts: {long}: rows 2 are longer than max_prompt_tokens=16" in result.stderr
    assert f"data.demonstrations: {long}: rows 2 are longer" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["model", "reward"])
def test_a_model_that_does_not_fit_its_class_is_told_with_its_setting_even_without_files(config, tmp_path, key):
    folder = shutil.copytree(config.model.path, tmp_path / "misfit")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"model_type": "foo"}))
    getattr(config, key).path = str(folder)
    config.data.prompts = None
    (message,) = row_problems(config)
    assert message.startswith(f"{key}.path: {folder / 'config.json'}: transformers knows no model_type 'foo'")
