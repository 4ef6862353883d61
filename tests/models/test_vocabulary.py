"""Tokenizer files read without transformers."""

import json

import pytest

from rlhf_ray.errors import ModelError
from rlhf_ray.models.vocabulary import num_token_ids, require_tokenizer, tokenizer_digest


def write(folder, vocabulary, **more):
    folder.mkdir(exist_ok=True)
    content = {"added_tokens": [], "model": {"type": "WordLevel", "vocab": vocabulary}} | more
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def test_the_largest_id_counts_added_tokens_too(tmp_path):
    assert num_token_ids(write(tmp_path, {"a": 0, "b": 7})) == 8
    assert num_token_ids(write(tmp_path, {"a": 0}, added_tokens=[{"id": 9, "content": "<x>"}])) == 10


def test_unigram_vocabularies_are_lists(tmp_path):
    assert num_token_ids(write(tmp_path, [["a", -1.0], ["b", -2.0]])) == 2


def test_files_of_old_byte_pair_tokenizers_are_read(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    (tmp_path / "added_tokens.json").write_text('{"<x>": 5}')
    assert num_token_ids(tmp_path) == 6


def test_a_folder_without_tokenizer_tells_nothing(tmp_path):
    assert num_token_ids(tmp_path) is None
    assert tokenizer_digest(tmp_path) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"model": {"vocab": 3}}'])
def test_damaged_files_are_refused_by_name(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        num_token_ids(tmp_path)


def test_the_digest_is_of_what_turns_text_into_ids(tmp_path):
    base = tokenizer_digest(write(tmp_path / "a", {"a": 0, "b": 1}))
    assert tokenizer_digest(write(tmp_path / "b", {"b": 1, "a": 0}, padding={"length": 4})) == base
    assert tokenizer_digest(write(tmp_path / "c", {"a": 1, "b": 0})) != base
    assert tokenizer_digest(write(tmp_path / "d", {"a": 0, "b": 1}, normalizer={"type": "Lowercase"})) != base


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_settings_of_a_tokenizer_that_are_no_json_object_are_refused_by_name(tmp_path, name):
    write(tmp_path, {"a": 0})
    (tmp_path / name).write_text("{}")
    require_tokenizer(tmp_path)
    (tmp_path / name).write_text("[]")
    with pytest.raises(ModelError, match=rf"{name} holds a list; a JSON object was expected"):
        require_tokenizer(tmp_path)
