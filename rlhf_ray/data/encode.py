"""From texts to token ids. Prompt and answer are encoded apart, so the border between them never moves.

Answers that are whole (demonstrations, written preferences) get the end token; sampled answers keep what was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.lengths import cut_left, cut_prompts_left, kept_positions
from rlhf_ray.data.preference_groups import group_batch
from rlhf_ray.data.render import (
    AnswerForm,
    answer_form,
    answer_ids,
    assistant_mask,
    prompt_ids,
    prompt_text,
    shown_prompt,
)
from rlhf_ray.data.rows import AnyRow, Asked, DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.errors import DataError
from rlhf_ray.types import PreferenceTargets, Prompts, Ragged, Sequences, SftTargets, TrainBatch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OnOverlong = Literal["drop", "truncate_left", "error"]
LossOn = Literal["answer", "assistant", "all"]  # the last answer, every answer, all but the first id
_NAMED = 20  # rows in a message
TokenRow = Sequence[int] | NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReport:
    """What became of rows, some of which were too long."""

    kept: int
    dropped: int
    cut: int  # these are kept

    @property
    def summary(self) -> str:
        """One line for the log."""
        return f"kept {self.kept}, dropped {self.dropped}, cut {self.cut} for their length"


class OverlongError(DataError):
    """Rows that are longer than a limit."""

    def __init__(self, ids: Sequence[str], *, count: int, longest: int, limit: str) -> None:
        super().__init__(
            f"rows {_named(ids, count)} are longer than {limit}, the longest of them {longest} tokens; "
            "accepted: a larger limit, or data.on_long_prompt=drop or truncate_left"
        )
        self.ids = tuple(ids[:_NAMED])
        self.count = count
        self.longest = longest
        self.limit = limit


def merge_overlong(errors: Sequence[OverlongError]) -> OverlongError:
    """One error over the pieces of a file, its rows in the file's order."""
    return OverlongError(
        sorted((row_id for error in errors for row_id in error.ids), key=int),
        count=sum(error.count for error in errors),
        longest=max(error.longest for error in errors),
        limit=errors[0].limit,
    )


def merge_reports(reports: Sequence[LengthReport]) -> LengthReport:
    """One report over the pieces of a file."""
    return LengthReport(
        kept=sum(report.kept for report in reports),
        dropped=sum(report.dropped for report in reports),
        cut=sum(report.cut for report in reports),
    )


def encode_prompts(
    rows: Sequence[PromptRow], tokenizer: PreTrainedTokenizerBase, *, max_prompt_tokens: int, on_overlong: OnOverlong
) -> tuple[Prompts, LengthReport]:
    """Prompts of at most max_prompt_tokens ids. A cut prompt keeps its BOS and its last ids, and its text says so.

    Raises DataError naming the rows that have no ids of their own, or are too long under "error".
    """
    tokens = _prompt_ids(rows, tokenizer, max_tokens=max_prompt_tokens)
    overlong = {i: len(ids) for i, ids in enumerate(tokens) if len(ids) > max_prompt_tokens}
    kept, report = _by_length(rows, overlong, limit=f"max_prompt_tokens={max_prompt_tokens}", on_overlong=on_overlong)
    texts = [shown_prompt(row.prompt) for row in rows]
    if on_overlong == "truncate_left":
        for i in overlong:
            tokens[i] = cut_left(tokens[i], max_tokens=max_prompt_tokens, bos_token_id=tokenizer.bos_token_id)
            texts[i] = tokenizer.decode(tokens[i], skip_special_tokens=True)
    prompts = Prompts(
        ids=tuple(rows[i].id for i in kept),
        texts=tuple(texts[i] for i in kept),
        tokens=Ragged.from_rows([tokens[i] for i in kept], np.int32),
    )
    return prompts, report


def encode_demonstrations(
    rows: Sequence[DemonstrationRow],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_tokens: int,
    on_overlong: OnOverlong,
    loss_on: LossOn,
) -> tuple[TrainBatch[SftTargets[Ragged]], LengthReport]:
    """prompt + response + end token, weight 1 on every trained token.

    Under "truncate_left" the prompt is cut, never the response. DataError as in encode_prompts.
    """
    prompts = _prompt_ids(rows, tokenizer, max_tokens=max_tokens)
    responses = answer_ids([row.response for row in rows], tokenizer, form=_form(rows, tokenizer))
    longest = [len(prompt) + len(response) for prompt, response in zip(prompts, responses, strict=True)]
    kept, report = _fit(rows, longest, [len(r) for r in responses], max_tokens=max_tokens, on_overlong=on_overlong)
    sequences = _cut(_lay([prompts[i] for i in kept], [responses[i] for i in kept]), tokenizer, max_tokens=max_tokens)
    weights = [np.ones(count, dtype=np.float32) for count in sequences.tokens.lengths - sequences.prompt_lengths]
    if loss_on == "all":
        weights = [np.ones(length - 1, dtype=np.float32) for length in sequences.tokens.lengths]
    elif loss_on == "assistant":
        masks = [_kept_mask(rows[i].prompt, prompts[i], tokenizer, max_tokens - len(responses[i])) for i in kept]
        weights = [np.concatenate([mask[1:], weight]) for mask, weight in zip(masks, weights, strict=True)]
    if loss_on != "answer":
        sequences = Sequences(tokens=sequences.tokens, prompt_lengths=np.ones(len(kept), dtype=np.int64))
    batch = TrainBatch(
        sequences=sequences,
        targets=SftTargets(weights=Ragged.from_rows(weights, np.float32)),
        row_counts=np.array([weight.sum() for weight in weights], dtype=np.float64),
        rows_per_group=1,
    )
    return batch, report


def encode_preferences(
    rows: Sequence[PreferenceRow],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_tokens: int,
    on_overlong: OnOverlong,
    as_pairs: bool,
) -> tuple[TrainBatch[PreferenceTargets[Ragged]], LengthReport]:
    """Groups of answers to one prompt, each prompt + answer + end token, with their labels.

    `as_pairs` makes every pair with different labels a group of its own, where rows have different numbers of answers.
    Lengths as in encode_demonstrations.
    """
    if as_pairs:
        rows = [pair for row in rows for pair in _pairs(row)]
    group = len(rows[0].answers) if rows else 2
    prompts = _prompt_ids(rows, tokenizer, max_tokens=max_tokens)
    flat = answer_ids([text for row in rows for text in row.answers], tokenizer, form=_form(rows, tokenizer))
    answers = [flat[start : start + group] for start in range(0, len(flat), group)]
    longest = [max(map(len, texts)) for texts in answers]
    lengths = [len(prompt) + answer for prompt, answer in zip(prompts, longest, strict=True)]
    kept, report = _fit(rows, lengths, longest, max_tokens=max_tokens, on_overlong=on_overlong)
    sequences = _lay([prompts[i] for i in kept for _ in range(group)], [answer for i in kept for answer in answers[i]])
    labels = np.array([label for i in kept for label in rows[i].labels], dtype=np.float64)
    batch = group_batch(_cut(sequences, tokenizer, max_tokens=max_tokens), labels, group=group)
    return batch, report


def _pairs(row: PreferenceRow) -> list[PreferenceRow]:
    """Every two answers that the labels tell apart, the better one first."""
    answers = list(zip(row.answers, row.labels, strict=True))
    return [
        PreferenceRow(id=row.id, prompt=row.prompt, answers=(better, worse), labels=(high, low))
        for better, high in answers
        for worse, low in answers
        if high > low
    ]


def _kept_mask(
    prompt: Asked, ids: Sequence[int], tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> NDArray[np.float32]:
    """Which of the ids that stay of a prompt belong to earlier answers."""
    mask = np.array(assistant_mask(prompt, tokenizer), dtype=np.float32)
    return mask[kept_positions(ids, max_tokens=max_tokens, bos_token_id=tokenizer.bos_token_id)]


def _lay(prompts: Sequence[TokenRow], answers: Sequence[TokenRow]) -> Sequences:
    rows = [np.concatenate([prompt, answer]) for prompt, answer in zip(prompts, answers, strict=True)]
    return Sequences(
        tokens=Ragged.from_rows(rows, np.int32),
        prompt_lengths=np.array([len(prompt) for prompt in prompts], dtype=np.int64),
    )


def _cut(sequences: Sequences, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int) -> Sequences:
    return cut_prompts_left(sequences, max_tokens=max_tokens, bos_token_id=tokenizer.bos_token_id)[0]


def _form(rows: Sequence[AnyRow], tokenizer: PreTrainedTokenizerBase) -> AnswerForm:
    """How answers are written; a file holds either chats or none."""
    return answer_form(tokenizer, chat=bool(rows) and isinstance(rows[0].prompt, tuple))


def _prompt_ids(rows: Sequence[AnyRow], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int) -> list[list[int]]:
    """See render.py. DataError for prompts that are nothing but special tokens."""
    tokens = prompt_ids([_rendered(row, tokenizer, max_tokens=max_tokens) for row in rows], tokenizer)
    special = set(tokenizer.all_special_ids)
    empty = [row.id for row, ids in zip(rows, tokens, strict=True) if special.issuperset(ids)]
    if empty:
        raise DataError(
            f"empty prompts in rows {_named(empty, len(empty))}: no token of their own; accepted: non-empty text"
        )
    return tokens


def _rendered(row: AnyRow, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int) -> str:
    """See render.py; errors name the row."""
    try:
        return prompt_text(row.prompt, tokenizer, max_tokens=max_tokens)
    except DataError as error:
        raise type(error)(f"row {row.id}: {error}") from error


def _fit(
    rows: Sequence[AnyRow],
    lengths: Sequence[int],
    answer_lengths: Sequence[int],
    *,
    max_tokens: int,
    on_overlong: OnOverlong,
) -> tuple[list[int], LengthReport]:
    """Which rows stay. An answer is never cut: one that leaves its prompt no room cannot be truncated."""
    overlong = {i: length for i, length in enumerate(lengths) if length > max_tokens}
    limit = f"max_prompt_tokens + max_answer_tokens = {max_tokens}"
    hopeless = [rows[i].id for i in overlong if answer_lengths[i] >= max_tokens]
    if on_overlong == "truncate_left" and hopeless:
        raise DataError(
            f"answers of rows {_named(hopeless, len(hopeless))} alone fill {limit}, and answers are never cut; "
            "accepted: a larger limit, or data.on_long_prompt=drop"
        )
    return _by_length(rows, overlong, limit=limit, on_overlong=on_overlong)


def _by_length(
    rows: Sequence[AnyRow],
    overlong: Mapping[int, int],
    *,
    limit: str,
    on_overlong: OnOverlong,
) -> tuple[list[int], LengthReport]:
    """Which rows stay, and the report; OverlongError under "error". `overlong` has rows and their lengths."""
    if overlong and on_overlong == "error":
        ids = list(dict.fromkeys(rows[i].id for i in overlong))  # pairs of one row share its id
        raise OverlongError(ids, count=len(ids), longest=max(overlong.values()), limit=limit)
    gone = set(overlong) if on_overlong == "drop" else set()
    kept = [i for i in range(len(rows)) if i not in gone]
    return kept, LengthReport(kept=len(kept), dropped=len(gone), cut=len(overlong) - len(gone))


def _named(ids: Sequence[str], count: int) -> str:
    """The first row ids for a message, out of so many."""
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more
