"""What all backends do alike: check a request, spread it over samples, put answers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from rlhf_ray.errors import DataError
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer as a backend produced it."""

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    finish_reason: FinishReason
    versions: tuple[int, int]  # first and last


def spread(prompts: Prompts, *, sampling: Sampling, seeds: NDArray[np.uint64], max_model_len: int) -> Prompts:
    """Each prompt `num_samples` times, side by side.

    Raises DataError for a prompt that leaves no room for the answer: a backend would cut the answer without a word.
    """
    rows = np.repeat(np.arange(len(prompts.ids)), sampling.num_samples)
    assert len(seeds) == len(rows), f"one seed per answer: {len(rows)} answers, {len(seeds)} seeds"
    longest = max_model_len - sampling.max_new_tokens
    for prompt_id, length in zip(prompts.ids, prompts.tokens.lengths, strict=True):
        if not 0 < length <= longest:
            raise DataError(
                f"prompt {prompt_id!r} has {length} tokens; with max_new_tokens={sampling.max_new_tokens} and "
                f"max_model_len={max_model_len} a prompt may have 1 to {longest}"
            )
    return Prompts(
        ids=tuple(prompts.ids[row] for row in rows),
        texts=tuple(prompts.texts[row] for row in rows),
        tokens=prompts.tokens.take(rows),
    )


def collect(prompts: Prompts, answers: Sequence[Answer], *, tokenizer: PreTrainedTokenizerBase) -> Completions:
    """Answers laid end to end, decoded without special tokens."""
    texts = tokenizer.batch_decode([list(answer.token_ids) for answer in answers], skip_special_tokens=True)
    return Completions(
        prompts=prompts,
        tokens=Ragged.from_rows([answer.token_ids for answer in answers], np.int32),
        texts=tuple(texts),
        logprobs=Ragged.from_rows([np.asarray(answer.logprobs) for answer in answers], np.float32),
        finish_reasons=tuple(answer.finish_reason for answer in answers),
        versions=np.array([answer.versions for answer in answers], dtype=np.int64).reshape(-1, 2),
    )
