"""resume=DIR: the stored config counts, and only a few things may change."""

import json
from dataclasses import asdict, replace

import pytest

from rlhf_ray.config.load import load


@pytest.fixture
def run(start, tmp_path):
    """The directory of a run with seed 3 and its own batch size, and its config."""
    words = ["seed=3", "algorithm.batch_size=32", "experiment=tiny_test", "run_dir=old", "data.num_prompts=128"]
    config = load(words, start).config
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"config": asdict(config), "command": words}))
    return folder, config


def test_a_resumed_run_has_the_config_it_was_started_with(loaded, run):
    folder, config = run
    resumed = loaded("resume=old")
    assert resumed.config == replace(config, resume=str(folder), run_dir=str(folder))
    assert resumed.warnings == ()


def test_a_run_that_was_moved_continues_where_it_is(loaded, run, tmp_path):
    folder, _ = run
    moved = folder.rename(tmp_path / "moved")
    assert loaded("resume=moved").config.run_dir == str(moved)


def test_placement_records_and_checks_may_change(loaded, run):
    words = (
        "resume=old",
        "checkpoint.every=1",
        "placement=local",
        "placement.policy.threads=2",
        "check.kl=0.5",
        "dry_run=true",
    )
    config = loaded(*words).config
    assert (config.checkpoint.every, config.placement.backend, config.placement.policy.threads) == (1, "local", 2)
    assert (config.check.kl, config.dry_run) == (0.5, True)
    assert config.checkpoint.sft_every == 30, "what is not named stays as it was"
    assert config.seed == 3


def test_the_same_words_again_are_no_change(loaded, run):
    _, config = run
    assert loaded("resume=old", "experiment=tiny_test", "seed=3", "algorithm.batch_size=32").config.seed == config.seed


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("seed=4", "seed=4: the run was started with seed=3"),
        ("model.path=other", "model.path=other: the run was started with model.path=null"),
        ("model.hidden_size=256", "started with model.hidden_size=64"),
        ("algorithm.batch_size=16", "started with algorithm.batch_size=32"),
        ("stages=[sft]", "started with stages=[sft,reward_model,ppo]"),
        ("generator=hf", "generator=hf: not among the words"),
        ("experiment=review_sentiment", "experiment=review_sentiment: not among the words"),
        ("run_dir=elsewhere", "started with run_dir="),
    ],
)
def test_a_change_that_would_make_another_run_is_refused(refusal, run, word, told):
    message = refusal("resume=old", word)
    assert told in message
    assert "changeable are placement.*, tracking.*, checkpoint.*" in message


def test_a_changed_value_is_checked_like_any_other(refusal, run):
    assert "checkpoint.every=0" in refusal("resume=old", "checkpoint.every=0")


def test_a_missing_path_is_refused(refusal):
    assert "nowhere: does not exist; accepted is the directory of an earlier run" in refusal("resume=nowhere")


def test_a_file_is_refused(refusal, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal("resume=file")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "holds no run.json"),
        ("{", "is not JSON"),
        ("[]", 'has no "config"'),
        ('{"config": 3}', 'has no "config"'),
    ],
)
def test_a_directory_that_is_no_run_is_refused(refusal, tmp_path, content, told):
    folder = tmp_path / "folder"
    folder.mkdir()
    if content is not None:
        (folder / "run.json").write_text(content)
    assert told in refusal("resume=folder")


def test_a_stored_setting_that_no_longer_exists_is_named(refusal, run):
    folder, config = run
    stored = asdict(config) | {"sed": 3}
    (folder / "run.json").write_text(json.dumps({"config": stored, "command": []}))
    assert "sed=3: no such setting; did you mean seed?" in refusal("resume=old")
