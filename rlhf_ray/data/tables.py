"""All rows of a run, encoded: from a built-in corpus or from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rlhf_ray.data.encode import (
    LengthReport,
    OverlongError,
    encode_demonstrations,
    encode_preferences,
    encode_prompts,
    merge_overlong,
    merge_reports,
)
from rlhf_ray.data.file_rows import FileRows
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.fingerprint import fingerprint
from rlhf_ray.data.on_disk import BatchFile
from rlhf_ray.data.order import split_rows
from rlhf_ray.data.prompt_table import PromptFile, PromptTable, prompt_table
from rlhf_ray.data.read import ReadReport, RowStream, read_demonstrations, read_prompts
from rlhf_ray.data.render import shown_prompt
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.data.rows import Corpus, DemonstrationRow, PreferenceRow, PromptRow, RowError
from rlhf_ray.errors import DataError
from rlhf_ray.types import PreferenceTargets, Prompts, Ragged, SftTargets, TrainBatch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T", bound="DataclassInstance")
Row = TypeVar("Row", PromptRow, DemonstrationRow, PreferenceRow)
Encoded = TypeVar("Encoded")
PIECE_ROWS = 2048  # rows whose texts are in memory at once


@dataclass(frozen=True, kw_only=True)
class RowFates:
    """What became of the rows of all files together; a row may be counted as kept and cut."""

    kept: int
    skipped: int  # not usable
    dropped: int  # too long
    cut: int


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a run trains and evaluates on."""

    prompts: PromptTable
    held_out_prompts: PromptTable
    row_sets: Mapping[RowSet, TrainBatch[Any]]  # those there are, in the order of RowSet
    notes: tuple[str, ...]  # what reading and encoding dropped, a line each for every kind of rows
    fates: RowFates

    @cached_property
    def fingerprint(self) -> str:
        """See fingerprint.py."""
        return fingerprint((self.prompts, self.held_out_prompts), tuple(self.row_sets.values()))


def corpus_tables(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, lengths: Lengths) -> Tables:
    """What a grammar wrote; preferences are made later, from the policy's own answers."""
    encoder = Encoder(tokenizer, lengths=lengths)
    prompts, train_report = encoder.prompts(corpus.prompts)
    held_out, held_report = encoder.prompts(corpus.held_out_prompts)
    return Tables(
        prompts=prompt_table([prompts]),
        held_out_prompts=prompt_table([held_out]),
        row_sets={
            RowSet.DEMONSTRATIONS: encoder.demonstrations(corpus.demonstrations)[0],
            RowSet.HELD_OUT_DEMONSTRATIONS: encoder.demonstrations(corpus.held_out_demonstrations)[0],
        },
        notes=(f"prompts: {train_report.summary}", f"held-out prompts: {held_report.summary}"),
        fates=_fates([], [train_report, held_report]),
    )


def file_tables(files: DataFiles, tokenizer: PreTrainedTokenizerBase, *, model_dir: Path, lengths: Lengths) -> Tables:
    """Read, split off the held-out rows, encode, a few rows at a time. DataError names file, line and reason."""
    encoder = Encoder(tokenizer, lengths=lengths)
    rows = FileRows(files, tokenizer, model_dir=model_dir)
    asked, demos, groups = rows.prompts(), rows.demonstrations(), rows.preferences()
    prompts, held_out, report = _split_prompts(asked, encoder, files)
    read, reports = {"prompts": asked.report}, [report]
    row_sets: dict[RowSet, TrainBatch[Any]] = {}
    if demos is not None:
        train_demos, held_out_demos, report = _split_batches(demos, encoder.demonstrations, files)
        row_sets |= {RowSet.DEMONSTRATIONS: train_demos, RowSet.HELD_OUT_DEMONSTRATIONS: held_out_demos}
        read["demonstrations"] = demos.report
        reports.append(report)
    if groups is not None:
        encode = partial(encoder.preferences, as_pairs=in_pairs(groups))
        train_groups, held_out_groups, report = _split_batches(groups, encode, files)
        row_sets |= {RowSet.PREFERENCES: train_groups, RowSet.HELD_OUT_PREFERENCES: held_out_groups}
        read["preferences"] = groups.report
        reports.append(report)
    return Tables(
        prompts=prompts,
        held_out_prompts=held_out,
        row_sets=row_sets,
        notes=tuple(
            note
            for (kind, rows), report in zip(read.items(), reports, strict=True)
            for note in (f"{kind}: {rows.summary}", f"{kind}: {rows.path}: {report.summary}")
        ),
        fates=_fates(list(read.values()), reports),
    )


def file_texts(files: DataFiles) -> Iterator[str]:
    """What a new tokenizer is made from: demonstrations where there are any, else prompts."""
    if files.demonstrations is None:
        for row in read_prompts(files.prompts, layout=files.layout, on_bad_row=files.on_bad_row):
            yield shown_prompt(row.prompt)
    else:
        for demo in read_demonstrations(files.demonstrations, layout=files.layout, on_bad_row=files.on_bad_row):
            yield shown_prompt(demo.prompt) + demo.response


class Encoder:
    """The encoding functions with the tokenizer and limits of a run."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, lengths: Lengths) -> None:
        self._tokenizer = tokenizer
        self._lengths = lengths

    def prompts(self, rows: Sequence[PromptRow]) -> tuple[Prompts, LengthReport]:
        """See encode_prompts."""
        return encode_prompts(
            rows,
            self._tokenizer,
            max_prompt_tokens=self._lengths.max_prompt_tokens,
            on_overlong=self._lengths.on_long_prompt,
        )

    def demonstrations(self, rows: Sequence[DemonstrationRow]) -> tuple[TrainBatch[SftTargets[Ragged]], LengthReport]:
        """See encode_demonstrations."""
        return encode_demonstrations(
            rows,
            self._tokenizer,
            max_tokens=self._lengths.max_tokens,
            on_overlong=self._lengths.on_long_prompt,
            loss_on=self._lengths.loss_on,
        )

    def preferences(
        self, rows: Sequence[PreferenceRow], *, as_pairs: bool
    ) -> tuple[TrainBatch[PreferenceTargets[Ragged]], LengthReport]:
        """See encode_preferences."""
        return encode_preferences(
            rows,
            self._tokenizer,
            max_tokens=self._lengths.max_tokens,
            on_overlong=self._lengths.on_long_prompt,
            as_pairs=as_pairs,
        )


def in_pairs(groups: RowStream[PreferenceRow]) -> bool:
    """Whether rows have different numbers of answers, so that every two answers have to be a group of their own."""
    return len({len(row.answers) for row in groups}) > 1


def encode_piece(
    rows: RowStream[Row], encode: Callable[[list[Row]], tuple[Encoded, LengthReport]], piece: list[Row]
) -> tuple[Encoded, LengthReport]:
    """Some of the rows, encoded; errors name the file, but that of lengths, which is told for all pieces together."""
    try:
        return encode(piece)
    except OverlongError:
        raise
    except RowError as error:
        raise DataError(f"{rows.report.path}: {error} (on_bad_row=skip would leave it out)") from error
    except DataError as error:
        raise DataError(f"{rows.report.path}: {error}") from error


def encode_all(
    rows: RowStream[Row],
    encode: Callable[[list[Row]], tuple[Encoded, LengthReport]],
    files: DataFiles,
    *,
    append: Callable[[bool, Encoded], None],
) -> LengthReport:
    """Every piece of the file goes to its part, (held out?, piece).

    DataError where rows are too long, of all of them together, and where a part is left without a row.
    """
    reports: dict[bool, list[LengthReport]] = {False: [], True: []}
    overlong: list[OverlongError] = []
    for held_out, piece in split_stream(rows, share=files.held_out_share, seed=files.seed):
        try:
            encoded, report = encode_piece(rows, encode, piece)
        except OverlongError as error:
            overlong.append(error)
            continue
        append(held_out, encoded)
        reports[held_out].append(report)
    if overlong:
        raise DataError(f"{rows.report.path}: {merge_overlong(overlong)}")
    total = merge_reports([*reports[False], *reports[True]])
    if not total.kept:
        raise DataError(f"{rows.report.path}: no row left: {total.summary}; accepted: a larger limit, or truncate_left")
    for held_out, use in ((False, "to train on"), (True, "for evaluation")):
        if not merge_reports(reports[held_out]).kept:
            raise DataError(
                f"{rows.report.path}: no row left {use}: {total.summary}, held_out_share={files.held_out_share:g}; "
                "accepted are at least two rows, one of them held out"
            )
    return total


def split_stream(rows: RowStream[Row], *, share: float, seed: int) -> Iterator[tuple[bool, list[Row]]]:
    """All rows in pieces, (held out?, rows); the same rows are held out by the same share and seed."""
    is_held_out = np.zeros(rows.count(), dtype=bool)
    is_held_out[split_rows(len(is_held_out), share=share, seed=seed)[1]] = True
    waiting: dict[bool, list[Row]] = {False: [], True: []}
    begun: set[bool] = set()
    for row, held_out in zip(rows, is_held_out.tolist(), strict=True):
        waiting[held_out].append(row)
        if len(waiting[held_out]) == PIECE_ROWS:
            yield held_out, waiting[held_out]
            begun.add(held_out)
            waiting[held_out] = []
    for held_out, rest in waiting.items():
        if rest or held_out not in begun:  # each part has a piece, if an empty one
            yield held_out, rest


def _split_prompts(
    rows: RowStream[PromptRow], encoder: Encoder, files: DataFiles
) -> tuple[PromptTable, PromptTable, LengthReport]:
    parts = {False: PromptFile(), True: PromptFile()}
    report = encode_all(rows, encoder.prompts, files, append=lambda held_out, piece: parts[held_out].append(piece))
    return parts[False].table(), parts[True].table(), report


def _split_batches(
    rows: RowStream[Row], encode: Callable[[list[Row]], tuple[TrainBatch[T], LengthReport]], files: DataFiles
) -> tuple[TrainBatch[T], TrainBatch[T], LengthReport]:
    parts: dict[bool, BatchFile[T]] = {False: BatchFile(), True: BatchFile()}
    report = encode_all(rows, encode, files, append=lambda held_out, piece: parts[held_out].append(piece))
    return parts[False].batch(), parts[True].batch(), report


def _fates(read: Sequence[ReadReport], reports: Sequence[LengthReport]) -> RowFates:
    return RowFates(
        kept=sum(report.kept for report in reports),
        skipped=sum(report.num_skipped for report in read),
        dropped=sum(report.dropped for report in reports),
        cut=sum(report.cut for report in reports),
    )
