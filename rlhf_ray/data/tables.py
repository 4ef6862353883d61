"""All rows of a run, encoded: from a built-in corpus or from files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from rlhf_ray.data.completions import concat_prompts
from rlhf_ray.data.encode import (
    LengthReport,
    encode_demonstrations,
    encode_preferences,
    encode_prompts,
    merge_reports,
)
from rlhf_ray.data.files import DataFiles, Lengths, layout_for
from rlhf_ray.data.on_disk import BatchFile
from rlhf_ray.data.order import Rows, split_rows
from rlhf_ray.data.read import ReadReport, RowStream, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.render import shown_prompt
from rlhf_ray.data.rows import Corpus, DemonstrationRow, PreferenceRow, PromptRow
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
class Split(Generic[T]):
    """Training rows and the rows kept from training."""

    train: TrainBatch[T]
    held_out: TrainBatch[T]


@dataclass(frozen=True, kw_only=True)
class RowFates:
    """What became of the rows of all files together; a row may be counted as kept and cut."""

    kept: int
    skipped: int  # not usable
    dropped: int  # too long
    cut: int


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a run trains and evaluates on; None where there is no such data."""

    prompts: Prompts
    held_out_prompts: Prompts
    demonstrations: Split[SftTargets[Ragged]] | None
    preferences: Split[PreferenceTargets[Ragged]] | None
    notes: tuple[str, ...]  # what reading and encoding dropped, one line a file
    fates: RowFates

    def fingerprint(self) -> str:
        """A digest over all token rows and prompt ids, in order."""
        digest = hashlib.blake2b(digest_size=16)
        for prompts in (self.prompts, self.held_out_prompts):
            digest.update("\n".join(prompts.ids).encode())
        rows = [self.prompts.tokens, self.held_out_prompts.tokens]
        rows += [
            batch.sequences.tokens
            for split in (self.demonstrations, self.preferences)
            if split is not None
            for batch in (split.train, split.held_out)
        ]
        for tokens in rows:
            digest.update(tokens.values.tobytes())
            digest.update(tokens.offsets.tobytes())
        return digest.hexdigest()


def corpus_tables(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, lengths: Lengths) -> Tables:
    """What a grammar wrote; preferences are made later, from the policy's own answers."""
    encoder = Encoder(tokenizer, lengths=lengths)
    prompts, train_report = encoder.prompts(corpus.prompts)
    held_out, held_report = encoder.prompts(corpus.held_out_prompts)
    demonstrations = Split(
        train=encoder.demonstrations(corpus.demonstrations)[0],
        held_out=encoder.demonstrations(corpus.held_out_demonstrations)[0],
    )
    return Tables(
        prompts=prompts,
        held_out_prompts=held_out,
        demonstrations=demonstrations,
        preferences=None,
        notes=(f"prompts: {train_report.summary}", f"held-out prompts: {held_report.summary}"),
        fates=_fates([], [train_report, held_report]),
    )


def file_tables(files: DataFiles, tokenizer: PreTrainedTokenizerBase, *, model_dir: Path, lengths: Lengths) -> Tables:
    """Read, split off the held-out rows, encode, a few rows at a time. DataError names file, line and reason."""
    encoder = Encoder(tokenizer, lengths=lengths)
    layout = layout_for(files, model_dir)
    asked = read_prompts(files.prompts, layout=layout, on_bad_row=files.on_bad_row)
    prompts, held_out, lengths_report = _split_prompts(asked, encoder, files)
    read, reports = [asked.report], [lengths_report]
    demonstrations = preferences = None
    if files.demonstrations is not None:
        demos = read_demonstrations(files.demonstrations, layout=layout, on_bad_row=files.on_bad_row)
        demonstrations, lengths_report = _split_batches(demos, encoder.demonstrations, files)
        read.append(demos.report)
        reports.append(lengths_report)
    if files.preferences is not None:
        groups = read_preferences(files.preferences, layout=layout, on_bad_row=files.on_bad_row)
        encode = partial(encoder.preferences, as_pairs=in_pairs(groups))
        preferences, lengths_report = _split_batches(groups, encode, files)
        read.append(groups.report)
        reports.append(lengths_report)
    return Tables(
        prompts=prompts,
        held_out_prompts=held_out,
        demonstrations=demonstrations,
        preferences=preferences,
        notes=tuple(
            note
            for rows, report in zip(read, reports, strict=True)
            for note in (rows.summary, f"{rows.path}: {report.summary}")
        ),
        fates=_fates(read, reports),
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
    """Some of the rows, encoded; errors name the file."""
    try:
        return encode(piece)
    except DataError as error:
        raise DataError(f"{rows.report.path}: {error}") from error


def require_rows(rows: RowStream[Row], report: LengthReport) -> LengthReport:
    """The report. DataError where nothing is left."""
    if not report.kept:
        raise DataError(
            f"{rows.report.path}: no row left: {report.summary}; accepted: a larger limit, or truncate_left"
        )
    return report


def take_prompts(prompts: Prompts, rows: Sequence[int] | Rows) -> Prompts:
    """The named prompts, in the order given."""
    return Prompts(
        ids=tuple(prompts.ids[i] for i in rows),
        texts=tuple(prompts.texts[i] for i in rows),
        tokens=prompts.tokens.take(rows),
    )


def split_stream(rows: RowStream[Row], *, share: float, seed: int) -> Iterator[tuple[bool, list[Row]]]:
    """All rows in pieces, (held out?, rows); the same rows are held out by the same share and seed."""
    is_held_out = np.zeros(rows.count(), dtype=bool)
    is_held_out[split_rows(len(is_held_out), share=share, seed=seed)[1]] = True
    waiting: dict[bool, list[Row]] = {False: [], True: []}
    for row, held_out in zip(rows, is_held_out.tolist(), strict=True):
        waiting[held_out].append(row)
        if len(waiting[held_out]) == PIECE_ROWS:
            yield held_out, waiting[held_out]
            waiting[held_out] = []
    for held_out, rest in waiting.items():
        yield held_out, rest


def _split_prompts(
    rows: RowStream[PromptRow], encoder: Encoder, files: DataFiles
) -> tuple[Prompts, Prompts, LengthReport]:
    parts: dict[bool, list[Prompts]] = {False: [], True: []}
    reports = []
    for held_out, piece in split_stream(rows, share=files.held_out_share, seed=files.seed):
        prompts, report = encode_piece(rows, encoder.prompts, piece)
        parts[held_out].append(prompts)
        reports.append(report)
    report = require_rows(rows, merge_reports(reports))
    return concat_prompts(parts[False]), concat_prompts(parts[True]), report


def _split_batches(
    rows: RowStream[Row], encode: Callable[[list[Row]], tuple[TrainBatch[T], LengthReport]], files: DataFiles
) -> tuple[Split[T], LengthReport]:
    parts: dict[bool, BatchFile[T]] = {False: BatchFile(), True: BatchFile()}
    reports = []
    for held_out, piece in split_stream(rows, share=files.held_out_share, seed=files.seed):
        batch, report = encode_piece(rows, encode, piece)
        parts[held_out].append(batch)
        reports.append(report)
    report = require_rows(rows, merge_reports(reports))
    return Split(train=parts[False].batch(), held_out=parts[True].batch()), report


def _fates(read: Sequence[ReadReport], reports: Sequence[LengthReport]) -> RowFates:
    return RowFates(
        kept=sum(report.kept for report in reports),
        skipped=sum(report.num_skipped for report in read),
        dropped=sum(len(report.dropped) for report in reports),
        cut=sum(len(report.truncated) for report in reports),
    )
