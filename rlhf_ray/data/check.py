"""What a data file would train on: counts, lengths, bad lines, rows that are both trained on and held out, examples.

Everything a person has to see is in a FileCheck; data/__main__.py prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.encode import LossOn, encode_demonstrations, encode_preferences, encode_prompts
from rlhf_ray.data.file_rows import template_check
from rlhf_ray.data.layout import Layout
from rlhf_ray.data.order import split_rows
from rlhf_ray.data.read import ReadReport, RowStream, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.render import shown_prompt
from rlhf_ray.data.rows import AnyRow, Asked, DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Kind = Literal["prompts", "demonstrations", "preferences"]
KINDS: tuple[Kind, ...] = ("preferences", "demonstrations", "prompts")  # from the most demanding
Rows = RowStream[PromptRow] | RowStream[DemonstrationRow] | RowStream[PreferenceRow]
NO_LIMIT = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of an example's text, and whether it is the answer that is trained on or scored."""

    text: str
    trained: bool


@dataclass(frozen=True, kw_only=True)
class Example:
    """One text as a model reads it; a row of preferences has one for each answer."""

    row_id: str
    label: float | None  # of an answer among several
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """What was found in one file."""

    path: Path
    kind: Kind
    report: ReadReport
    lengths: NDArray[np.int64]  # of each row's longest text: tokens or, without a model, characters
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


def check_file(path: Path, plan: Plan, *, kind: Kind | None) -> FileCheck:
    """Read a file as this kind of rows; None takes the most demanding kind that some of its rows are.

    Raises DataError for a file that cannot be read, has no usable row, or cannot be rendered.
    """
    kind = _likely_kind(path, plan) if kind is None else kind
    rows = _open(path, kind, plan)
    is_held_out = np.zeros(rows.count(), dtype=bool)
    is_held_out[split_rows(len(is_held_out), share=plan.held_out_share, seed=plan.seed)[1]] = True
    first_row: dict[bool, dict[Asked, str]] = {False: {}, True: {}}
    lengths: list[int] = []
    examples: list[Example] = []
    every_row: Iterator[AnyRow] = iter(rows)
    for row, held_out in zip(every_row, is_held_out.tolist(), strict=True):
        first_row[held_out].setdefault(row.prompt, row.id)
        texts = list(_texts(row, plan))
        lengths.append(max(length for length, _ in texts))
        if len(examples) < plan.num_examples:
            examples += [example for _, example in texts]
    training, held_out_rows = first_row[False], first_row[True]
    return FileCheck(
        path=path,
        kind=kind,
        report=rows.report,
        lengths=np.array(lengths, dtype=np.int64),
        num_repeated=len(lengths) - len({*training, *held_out_rows}),
        shared=tuple((training[prompt], row) for prompt, row in held_out_rows.items() if prompt in training),
        examples=tuple(examples),
        training=frozenset(training),
        held_out=frozenset(held_out_rows),
    )


def _likely_kind(path: Path, plan: Plan) -> Kind:
    """Demonstrations and preferences can be read as prompts, too; so ask for most first."""
    for kind in KINDS[:-1]:
        try:
            _open(path, kind, plan).count()
        except DataError:
            continue
        return kind
    return "prompts"


def _open(path: Path, kind: Kind, plan: Plan) -> Rows:
    check = template_check(plan.tokenizer)
    match kind:
        case "prompts":
            return read_prompts(path, layout=plan.layout, on_bad_row="skip").that_pass(check)
        case "demonstrations":
            return read_demonstrations(path, layout=plan.layout, on_bad_row="skip").that_pass(check)
        case _:
            return read_preferences(path, layout=plan.layout, on_bad_row="skip").that_pass(check)


def _texts(row: AnyRow, plan: Plan) -> Iterator[tuple[int, Example]]:
    """Length and example of each text of a row."""
    if plan.tokenizer is None:
        yield from _written(row)
        return
    labels = row.labels if isinstance(row, PreferenceRow) else (None,)
    for (ids, mask), label in zip(_encoded(row, plan, plan.tokenizer), labels, strict=True):
        yield len(ids), Example(row_id=row.id, label=label, pieces=_pieces(ids, mask, plan.tokenizer))


def _written(row: AnyRow) -> Iterator[tuple[int, Example]]:
    prompt = shown_prompt(row.prompt)
    answers: Sequence[tuple[str, float | None]] = [("", None)]
    if isinstance(row, DemonstrationRow):
        answers = [(row.response, None)]
    elif isinstance(row, PreferenceRow):
        answers = list(zip(row.answers, row.labels, strict=True))
    for answer, label in answers:
        pieces = [Piece(text=prompt, trained=False), Piece(text=answer, trained=True)]
        yield (
            len(prompt) + len(answer),
            Example(row_id=row.id, label=label, pieces=tuple(piece for piece in pieces if piece.text)),
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
