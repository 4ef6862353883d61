import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhf_ray.data.tokenizer import load_tokenizer, special_tokens, start_ids, train_tokenizer
from rlhf_ray.errors import DataError


def test_pad_and_end_are_distinct_and_the_vocabulary_is_about_the_size_asked_for(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.bos_token_id is None
    assert 950 <= len(tokenizer) <= 1_000


def test_demonstrations_take_about_fifteen_tokens(corpus, tokenizer):
    ids = tokenizer([row.prompt + row.response for row in corpus.demonstrations])["input_ids"]
    assert 14 <= sum(map(len, ids)) / len(ids) <= 17


def test_prompt_and_response_ids_add_up_to_the_ids_of_the_whole(corpus, tokenizer):
    for row in corpus.held_out_demonstrations:
        apart = tokenizer.encode(row.prompt) + tokenizer.encode(row.response)
        assert apart == tokenizer.encode(row.prompt + row.response)


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=40).filter(lambda text: "<" not in text))
@settings(max_examples=100, deadline=None)
def test_any_text_comes_back_unchanged(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_saved_tokenizer_loads_as_the_same_one(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The café Zara found was superb.<eos>"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert (loaded.pad_token, loaded.eos_token) == ("<pad>", "<eos>")
    assert special_tokens(tmp_path) == ("<pad>", "<eos>")


def test_training_twice_gives_the_same_tokenizer(corpus, tokenizer):
    texts = [row.prompt + row.response for row in corpus.demonstrations]
    again = train_tokenizer(texts, vocab_size=1_000)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_start_ids_are_the_bos_where_the_tokenizer_adds_one(tokenizer, bos_tokenizer):
    assert start_ids(tokenizer) == []
    assert start_ids(bos_tokenizer) == [1]


def test_a_folder_without_tokenizer_file_names_no_special_tokens(tmp_path):
    assert special_tokens(tmp_path) == ()


def test_what_tokenizer_json_says_counts_whatever_the_family(tmp_path, bos_tokenizer):
    """transformers builds a Qwen2 tokenizer by its model_type alone, and would find none of these words."""
    from transformers import Qwen2Config

    bos_tokenizer.save_pretrained(tmp_path)
    Qwen2Config().save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer("a b", add_special_tokens=False)["input_ids"] == [3, 4]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)


def test_a_folder_without_tokenizer_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match="no tokenizer can be loaded"):
        load_tokenizer(tmp_path)
