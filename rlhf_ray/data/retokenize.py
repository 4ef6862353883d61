"""The same prompts and answers in the ids of another tokenizer: a reward model's that is not the policy's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rlhf_ray.data.encode import encode_prompts
from rlhf_ray.data.prompt_table import PromptFile, RowIndex
from rlhf_ray.data.render import answer_form, answer_ids, plain_ids
from rlhf_ray.data.rows import PromptRow
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PIECE_ROWS = 2048
NO_LIMIT = 1 << 30  # a reward model's context is kept by the scorer, which cuts prompts from their left


class Retokenizer:
    """Knows every prompt of a run by its id; renders it in the other tokenizer's chat template where it is a chat.

    A finished answer gets the other tokenizer's end token, a cut one none.
    """

    def __init__(self, rows: Iterable[PromptRow], tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._form = answer_form(tokenizer, chat=False)
        file = PromptFile()
        stream = iter(rows)
        for piece in iter(lambda: list(islice(stream, PIECE_ROWS)), []):
            self._form = answer_form(tokenizer, chat=isinstance(piece[0].prompt, tuple))
            file.append(encode_prompts(piece, tokenizer, max_prompt_tokens=NO_LIMIT, on_overlong="error")[0])
        self._prompts = file.table()
        self._index = RowIndex(self._prompts.ids)

    def __call__(self, completions: Completions) -> Completions:
        """Prompts and answers re-encoded; texts, ids, order and finish reasons stay. Log-probs have no meaning: 0."""
        prompts = completions.prompts
        rows = [self._index.row(row_id) for row_id in prompts.ids]
        finished = answer_ids(completions.texts, self._tokenizer, form=self._form)
        plain = plain_ids(self._form.led(completions.texts), self._tokenizer)
        answers = [
            whole if reason is FinishReason.STOP else cut
            for whole, cut, reason in zip(finished, plain, completions.finish_reasons, strict=True)
        ]
        tokens = Ragged.from_rows(answers, np.int32)
        return dataclasses.replace(
            completions,
            prompts=Prompts(ids=prompts.ids, texts=prompts.texts, tokens=self._prompts.tokens.take(rows)),
            tokens=tokens,
            logprobs=tokens.like(np.zeros(len(tokens.values), dtype=np.float32)),
        )
