"""The built-in tokenizer, and a word tokenizer that puts a BOS before every text."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from rlhf_ray.data.reviews import build_corpus
from rlhf_ray.data.rows import Corpus, CorpusSizes
from rlhf_ray.data.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    sizes = CorpusSizes(demonstrations=10_000, prompts=3_840, held_out_prompts=512, held_out_demonstrations=600)
    return build_corpus(sizes, seed=1)


@pytest.fixture(scope="session")
def tokenizer(corpus):
    return train_tokenizer([row.prompt + row.response for row in corpus.demonstrations], vocab_size=1_000)


@pytest.fixture(scope="session")
def bos_tokenizer():
    """<pad> 0, <bos> 1, <eos> 2, then the letters a = 3 .. j = 12, one word each."""
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<bos>", "<eos>", *"abcdefghij", "<unk>"])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )


CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} <eos> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="session")
def chat_tokenizer():
    """As bos_tokenizer, with a template that writes the BOS itself; <system> 13, <user> 14, <assistant> 15."""
    from transformers import PreTrainedTokenizerFast

    turns = ["<system>", "<user>", "<assistant>"]
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<bos>", "<eos>", *"abcdefghij", *turns, "<unk>"])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        chat_template=CHAT_TEMPLATE,
    )
