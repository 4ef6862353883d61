"""Answers in the ids of a reward model's own tokenizer."""

import numpy as np

from rlhf_ray.data.retokenize import Retokenizer
from rlhf_ray.data.rows import Message, PromptRow
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged

ASKED = (Message(role="user", content="a b"),)


def completions_of(ids, texts, reasons):
    count = len(ids)
    return Completions(
        prompts=Prompts(ids=ids, texts=ids, tokens=Ragged.from_rows([[99]] * count, np.int32)),
        tokens=Ragged.from_rows([[98, 97]] * count, np.int32),
        texts=texts,
        logprobs=Ragged.from_rows([[-1.0, -2.0]] * count, np.float32),
        finish_reasons=reasons,
        versions=np.zeros((count, 2), dtype=np.int64),
    )


def as_lists(ragged):
    return [row.tolist() for row in ragged.rows()]


def test_plain_texts_get_the_other_tokenizers_ids_bos_and_end(bos_tokenizer):
    rows = [PromptRow(id="1", prompt="a b"), PromptRow(id="2", prompt="c")]
    said = completions_of(
        ("2", "1", "2"), ("d", "e f", ""), (FinishReason.STOP, FinishReason.LENGTH, FinishReason.STOP)
    )
    read = Retokenizer(rows, bos_tokenizer)(said)
    assert as_lists(read.prompts.tokens) == [[1, 5], [1, 3, 4], [1, 5]]
    assert as_lists(read.tokens) == [[6, 2], [7, 8], [2]]
    assert (read.texts, read.prompts.ids, read.finish_reasons) == (said.texts, said.prompts.ids, said.finish_reasons)


def test_chats_are_rendered_in_the_other_template(chat_tokenizer):
    read = Retokenizer([PromptRow(id="1", prompt=ASKED)], chat_tokenizer)(
        completions_of(("1",), ("c",), (FinishReason.STOP,))
    )
    assert as_lists(read.prompts.tokens) == [[1, 14, 3, 4, 2, 15]]
    assert as_lists(read.tokens) == [[5, 2]]
