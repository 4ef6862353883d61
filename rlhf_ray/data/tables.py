"""All rows of a run, encoded: from the built-in reviews or from files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from rlhf_ray.data.encode import LossOn, OnOverlong, encode_demonstrations, encode_preferences, encode_prompts
from rlhf_ray.data.order import Rows, epoch_order
from rlhf_ray.data.read import OnBadRow, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.rows import Corpus
from rlhf_ray.data.tokenizer import special_tokens
from rlhf_ray.types import PreferenceTargets, Prompts, Ragged, SftTargets, TrainBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase


T = TypeVar("T")
Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Split(Generic[T]):
    """Training rows and the rows kept from training."""

    train: TrainBatch[T]
    held_out: TrainBatch[T]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a run trains and evaluates on; None where there is no such data."""

    prompts: Prompts
    held_out_prompts: Prompts
    demonstrations: Split[SftTargets[Ragged]] | None
    preferences: Split[PreferenceTargets[Ragged]] | None
    notes: tuple[str, ...]  # what reading and encoding dropped, one line a file

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


@dataclass(frozen=True, kw_only=True)
class DataFiles:
    """Files of the user's own, and how strictly they are read."""

    prompts: Path
    demonstrations: Path | None
    preferences: Path | None
    held_out_share: float
    on_bad_row: OnBadRow
    seed: int


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Limits in tokens, and which tokens of demonstrations are trained on."""

    max_prompt_tokens: int
    max_new_tokens: int
    on_long_prompt: OnOverlong
    loss_on: LossOn

    @property
    def max_tokens(self) -> int:
        """Prompt and answer together."""
        return self.max_prompt_tokens + self.max_new_tokens


def corpus_tables(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, lengths: Lengths) -> Tables:
    """What a grammar wrote; preferences are made later, from the policy's own answers."""
    limits = {"max_prompt_tokens": lengths.max_prompt_tokens}
    prompts, train_report = encode_prompts(corpus.prompts, tokenizer, **limits, on_overlong=lengths.on_long_prompt)
    held_out, held_report = encode_prompts(
        corpus.held_out_prompts, tokenizer, **limits, on_overlong=lengths.on_long_prompt
    )
    train_demos, held_demos = (
        encode_demonstrations(
            rows,
            tokenizer,
            max_tokens=lengths.max_tokens,
            on_overlong=lengths.on_long_prompt,
            loss_on=lengths.loss_on,
        )[0]
        for rows in (corpus.demonstrations, corpus.held_out_demonstrations)
    )
    return Tables(
        prompts=prompts,
        held_out_prompts=held_out,
        demonstrations=Split(train=train_demos, held_out=held_demos),
        preferences=None,
        notes=(f"prompts: {train_report.summary}", f"held-out prompts: {held_report.summary}"),
    )


def file_tables(files: DataFiles, tokenizer: PreTrainedTokenizerBase, *, model_dir: Path, lengths: Lengths) -> Tables:
    """Read, split off the held-out rows, encode. DataError names file, line and reason."""
    special = special_tokens(model_dir)
    notes = []
    rows, report = read_prompts(files.prompts, on_bad_row=files.on_bad_row, special_tokens=special)
    prompts, lengths_report = encode_prompts(
        rows, tokenizer, max_prompt_tokens=lengths.max_prompt_tokens, on_overlong=lengths.on_long_prompt
    )
    notes += [report.summary, f"{files.prompts}: {lengths_report.summary}"]
    train, held_out = split_rows(len(prompts.ids), share=files.held_out_share, seed=files.seed)
    demonstrations = preferences = None
    if files.demonstrations is not None:
        demos, report = read_demonstrations(files.demonstrations, on_bad_row=files.on_bad_row, special_tokens=special)
        notes.append(report.summary)
        parts = [
            encode_demonstrations(
                part,
                tokenizer,
                max_tokens=lengths.max_tokens,
                on_overlong=lengths.on_long_prompt,
                loss_on=lengths.loss_on,
            )[0]
            for part in _parts(demos, files)
        ]
        demonstrations = Split(train=parts[0], held_out=parts[1])
    if files.preferences is not None:
        pairs, report = read_preferences(files.preferences, on_bad_row=files.on_bad_row, special_tokens=special)
        notes.append(report.summary)
        batches = [
            encode_preferences(part, tokenizer, max_tokens=lengths.max_tokens, on_overlong=lengths.on_long_prompt)[0]
            for part in _parts(pairs, files)
        ]
        preferences = Split(train=batches[0], held_out=batches[1])
    return Tables(
        prompts=take_prompts(prompts, train),
        held_out_prompts=take_prompts(prompts, held_out),
        demonstrations=demonstrations,
        preferences=preferences,
        notes=tuple(notes),
    )


def split_rows(num_rows: int, *, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and held-out row numbers, each ascending; at least one row on either side where there are two."""
    num_held_out = min(max(1, round(num_rows * share)), max(num_rows - 1, 0))
    order = epoch_order(num_rows, seed=seed, epoch=0)
    return np.sort(order[num_held_out:]), np.sort(order[:num_held_out])


def take_prompts(prompts: Prompts, rows: Sequence[int] | Rows) -> Prompts:
    """The named prompts, in the order given."""
    return Prompts(
        ids=tuple(prompts.ids[i] for i in rows),
        texts=tuple(prompts.texts[i] for i in rows),
        tokens=prompts.tokens.take(rows),
    )


def _parts(rows: Sequence[Row], files: DataFiles) -> tuple[list[Row], list[Row]]:
    train, held_out = split_rows(len(rows), share=files.held_out_share, seed=files.seed)
    return [rows[i] for i in train], [rows[i] for i in held_out]
