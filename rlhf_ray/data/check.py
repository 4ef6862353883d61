"""What a data file would train on: counts, lengths, bad lines, rows that are both trained on and held out, examples.

Everything a person has to see is in a FileCheck; data/__main__.py prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.encode import LossOn, encode_demonstrations, encode_preferences, encode_prompts
from rlhf_ray.data.file_rows import template_check
from rlhf_ray.data.guess import Kind
from rlhf_ray.data.layout import Layout
from rlhf_ray.data.order import split_rows
from rlhf_ray.data.read import ReadReport, RowStream, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.render import shown_prompt
from rlhf_ray.data.rows import AnyRow, Asked, DemonstrationRow, PreferenceRow, PromptRow

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Rows = RowStream[PromptRow] | RowStream[DemonstrationRow] | RowStream[PreferenceRow]
NO_LIMIT = 1 << 30
PAIR = (1.0, 0.0)  # labels of a written one


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of an example's text, and whether it is the answer that is trained on or scored."""

    text: str
    trained: bool


@dataclass(frozen=True, kw_only=True)
class Example:
    """One text as a model reads it; a row of preferences has one for each answer."""

    row_id: str
    answer: str | None  # which of several it is: chosen, rejected, or its label
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A text with its lengths: tokens or, without a model, characters."""

    prompt_length: int
    answer_length: int  # with the end token
    example: Example


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """What was found in one file."""

    path: Path
    kind: Kind
    report: ReadReport
    prompt_lengths: NDArray[np.int64]  # tokens or, without a model, characters
    answer_lengths: NDArray[np.int64]  # of every answer, with its end token; empty for prompts
    num_repeated: int  # rows whose prompt stood in an earlier row
    shared: tuple[tuple[str, str], ...]  # (training row, held-out row) with the same prompt
    examples: tuple[Example, ...]
    training: frozenset[Asked]
    held_out: frozenset[Asked]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How files would be read, split and encoded."""

    layout: Layout
    tokenizer: PreTrainedTokenizerBase | None  # None: characters are counted, and texts are shown as written
    loss_on: LossOn
    held_out_share: float
    seed: int
    num_examples: int


def check_file(path: Path, plan: Plan, *, kind: Kind) -> FileCheck:
    """Read a file as this kind of rows.

    Raises DataError for a file that cannot be read, has no usable row, or cannot be rendered.
    """
    rows = _open(path, kind, plan)
    is_held_out = np.zeros(rows.count(), dtype=bool)
    is_held_out[split_rows(len(is_held_out), share=plan.held_out_share, seed=plan.seed)[1]] = True
    first_row: dict[bool, dict[Asked, str]] = {False: {}, True: {}}
    prompt_lengths: list[int] = []
    answer_lengths: list[int] = []
    examples: list[Example] = []
    every_row: Iterator[AnyRow] = iter(rows)
    for row, held_out in zip(every_row, is_held_out.tolist(), strict=True):
        first_row[held_out].setdefault(row.prompt, row.id)
        texts = list(_texts(row, plan))
        prompt_lengths.append(texts[0].prompt_length)
        if not isinstance(row, PromptRow):
            answer_lengths += [text.answer_length for text in texts]
        if len(examples) < plan.num_examples:
            examples += [text.example for text in texts]
    training, held_out_rows = first_row[False], first_row[True]
    return FileCheck(
        path=path,
        kind=kind,
        report=rows.report,
        prompt_lengths=np.array(prompt_lengths, dtype=np.int64),
        answer_lengths=np.array(answer_lengths, dtype=np.int64),
        num_repeated=len(prompt_lengths) - len({*training, *held_out_rows}),
        shared=tuple((training[prompt], row) for prompt, row in held_out_rows.items() if prompt in training),
        examples=tuple(examples),
        training=frozenset(training),
        held_out=frozenset(held_out_rows),
    )


def _open(path: Path, kind: Kind, plan: Plan) -> Rows:
    check = template_check(plan.tokenizer)
    match kind:
        case "prompts":
            return read_prompts(path, layout=plan.layout, on_bad_row="skip").that_pass(check)
        case "demonstrations":
            return read_demonstrations(path, layout=plan.layout, on_bad_row="skip").that_pass(check)
        case _:
            return read_preferences(path, layout=plan.layout, on_bad_row="skip").that_pass(check)


def _texts(row: AnyRow, plan: Plan) -> Iterator[Measured]:
    """Every text of a row."""
    if plan.tokenizer is None:
        yield from _written(row)
        return
    asked = PromptRow(id=row.id, prompt=row.prompt)
    prompts, _ = encode_prompts([asked], plan.tokenizer, max_prompt_tokens=NO_LIMIT, on_overlong="error")
    prompt_length = len(prompts.tokens.values)
    for (ids, mask), answer in zip(_encoded(row, plan, plan.tokenizer), _answers(row), strict=True):
        yield Measured(
            prompt_length=prompt_length,
            answer_length=len(ids) - prompt_length,
            example=Example(row_id=row.id, answer=answer, pieces=_pieces(ids, mask, plan.tokenizer)),
        )


def _answers(row: AnyRow) -> tuple[str | None, ...]:
    """What to call each answer of a row."""
    if not isinstance(row, PreferenceRow):
        return (None,)
    return ("chosen", "rejected") if row.labels == PAIR else tuple(f"label {label:g}" for label in row.labels)


def _written(row: AnyRow) -> Iterator[Measured]:
    prompt = shown_prompt(row.prompt)
    texts: Sequence[str] = [""]
    if isinstance(row, DemonstrationRow):
        texts = [row.response]
    elif isinstance(row, PreferenceRow):
        texts = row.answers
    for text, answer in zip(texts, _answers(row), strict=True):
        pieces = [Piece(text=prompt, trained=False), Piece(text=text, trained=True)]
        yield Measured(
            prompt_length=len(prompt),
            answer_length=len(text),
            example=Example(row_id=row.id, answer=answer, pieces=tuple(piece for piece in pieces if piece.text)),
        )


def _encoded(
    row: AnyRow, plan: Plan, tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[NDArray[np.generic], NDArray[np.bool_]]]:
    """Ids of each text of a row, and which of them are trained on or scored."""
    if isinstance(row, PromptRow):
        prompts, _ = encode_prompts([row], tokenizer, max_prompt_tokens=NO_LIMIT, on_overlong="error")
        yield prompts.tokens.row(0), np.zeros(len(prompts.tokens.values), dtype=bool)
    elif isinstance(row, DemonstrationRow):
        batch, _ = encode_demonstrations(
            [row], tokenizer, max_tokens=NO_LIMIT, on_overlong="error", loss_on=plan.loss_on
        )
        untrained = np.zeros(batch.sequences.prompt_lengths[0], dtype=bool)
        yield batch.sequences.tokens.row(0), np.concatenate([untrained, batch.targets.weights.row(0).astype(bool)])
    else:
        groups, _ = encode_preferences([row], tokenizer, max_tokens=NO_LIMIT, on_overlong="error", as_pairs=False)
        for ids, prompt_length in zip(groups.sequences.tokens.rows(), groups.sequences.prompt_lengths, strict=True):
            yield ids, np.arange(len(ids)) >= prompt_length


def _pieces(ids: NDArray[np.generic], mask: NDArray[np.bool_], tokenizer: PreTrainedTokenizerBase) -> tuple[Piece, ...]:
    """Stretches of equal mask, decoded with their special tokens."""
    stretches = groupby(zip(ids.tolist(), mask.tolist(), strict=True), key=lambda pair: pair[1])
    return tuple(
        Piece(text=tokenizer.decode([token for token, _ in stretch], skip_special_tokens=False), trained=trained)
        for trained, stretch in stretches
    )
