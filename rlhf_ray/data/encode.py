"""From texts to token ids. Prompt and answer are encoded apart, so the border between them never moves.

Answers that are whole (demonstrations, written preferences) get the end token; sampled answers keep what was sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.lengths import cut_left, cut_prompts_left
from rlhf_ray.data.preference_groups import group_batch
from rlhf_ray.data.rows import AnyRow, DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.data.tokenizer import start_ids
from rlhf_ray.errors import DataError
from rlhf_ray.types import PreferenceTargets, Prompts, Ragged, Sequences, SftTargets, TrainBatch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OnOverlong = Literal["drop", "truncate_left", "error"]
TokenRow = Sequence[int] | NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReport:
    """What became of rows that were too long, by row id."""

    kept: int
    dropped: tuple[str, ...]
    truncated: tuple[str, ...]

    @property
    def summary(self) -> str:
        """One line for the log."""
        return f"kept {self.kept}, dropped {len(self.dropped)}, cut {len(self.truncated)} for their length"


def encode_prompts(
    rows: Sequence[PromptRow], tokenizer: PreTrainedTokenizerBase, *, max_prompt_tokens: int, on_overlong: OnOverlong
) -> tuple[Prompts, LengthReport]:
    """Prompts of at most max_prompt_tokens ids. A cut prompt keeps its BOS and its last ids, and its text says so.

    Raises DataError naming the rows that have no ids of their own, are too long under "error", or if none is left.
    """
    tokens = _prompt_ids(rows, tokenizer)
    overlong = [i for i, ids in enumerate(tokens) if len(ids) > max_prompt_tokens]
    kept, report = _by_length(rows, overlong, limit=f"max_prompt_tokens={max_prompt_tokens}", on_overlong=on_overlong)
    texts = [row.prompt for row in rows]
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
    loss_on_prompt: bool,
) -> tuple[TrainBatch[SftTargets[Ragged]], LengthReport]:
    """prompt + response + EOS, weight 1 on every trained token: the response, or all but the first id of the row.

    Under "truncate_left" the prompt is cut, never the response. DataError as in encode_prompts.
    """
    prompts = _prompt_ids(rows, tokenizer)
    responses = _finished_ids([row.response for row in rows], tokenizer)
    longest = [len(prompt) + len(response) for prompt, response in zip(prompts, responses, strict=True)]
    kept, report = _fit(rows, longest, [len(r) for r in responses], max_tokens=max_tokens, on_overlong=on_overlong)
    sequences = _cut(_lay([prompts[i] for i in kept], [responses[i] for i in kept]), tokenizer, max_tokens=max_tokens)
    if loss_on_prompt:
        sequences = Sequences(tokens=sequences.tokens, prompt_lengths=np.ones(len(kept), dtype=np.int64))
    trained = sequences.tokens.lengths - sequences.prompt_lengths
    weights = Ragged.from_rows([np.ones(count) for count in trained], np.float32)
    batch = TrainBatch(
        sequences=sequences,
        targets=SftTargets(weights=weights),
        row_counts=trained.astype(np.float64),
        rows_per_group=1,
    )
    return batch, report


def encode_pairs(
    rows: Sequence[PreferenceRow], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int, on_overlong: OnOverlong
) -> tuple[TrainBatch[PreferenceTargets[Ragged]], LengthReport]:
    """Groups of two: prompt + chosen + EOS (label 1), prompt + rejected + EOS (label 0).

    Lengths as in encode_demonstrations.
    """
    prompts = _prompt_ids(rows, tokenizer)
    chosen = _finished_ids([row.chosen for row in rows], tokenizer)
    rejected = _finished_ids([row.rejected for row in rows], tokenizer)
    answers = [max(len(better), len(worse)) for better, worse in zip(chosen, rejected, strict=True)]
    longest = [len(prompt) + answer for prompt, answer in zip(prompts, answers, strict=True)]
    kept, report = _fit(rows, longest, answers, max_tokens=max_tokens, on_overlong=on_overlong)
    sequences = _lay(
        [prompts[i] for i in kept for _ in range(2)], [answer for i in kept for answer in (chosen[i], rejected[i])]
    )
    labels = np.tile([1.0, 0.0], len(kept))
    batch = group_batch(_cut(sequences, tokenizer, max_tokens=max_tokens), labels, group=2)
    return batch, report


def _lay(prompts: Sequence[TokenRow], answers: Sequence[TokenRow]) -> Sequences:
    rows = [np.concatenate([prompt, answer]) for prompt, answer in zip(prompts, answers, strict=True)]
    return Sequences(
        tokens=Ragged.from_rows(rows, np.int32),
        prompt_lengths=np.array([len(prompt) for prompt in prompts], dtype=np.int64),
    )


def _cut(sequences: Sequences, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int) -> Sequences:
    return cut_prompts_left(sequences, max_tokens=max_tokens, bos_token_id=tokenizer.bos_token_id)[0]


def _plain_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Ids without anything the tokenizer would add."""
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]] if texts else []


def _prompt_ids(
    rows: Sequence[AnyRow],
    tokenizer: PreTrainedTokenizerBase,
) -> list[list[int]]:
    """The tokenizer's BOS, once, and the prompt. DataError for prompts that are nothing but special tokens."""
    start = start_ids(tokenizer)
    special = set(tokenizer.all_special_ids)
    plain = _plain_ids([row.prompt for row in rows], tokenizer)
    empty = [row.id for row, ids in zip(rows, plain, strict=True) if special.issuperset(ids)]
    if empty:
        raise DataError(f"empty prompts in rows {_named(empty)}: no token of their own; accepted: non-empty text")
    return [ids if start and ids[:1] == start else start + ids for ids in plain]


def _finished_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The ids of whole answers, ending in exactly one end token."""
    end = [tokenizer.eos_token_id]
    return [ids if ids[-1:] == end else ids + end for ids in _plain_ids(texts, tokenizer)]


def _fit(
    rows: Sequence[AnyRow],
    lengths: Sequence[int],
    answer_lengths: Sequence[int],
    *,
    max_tokens: int,
    on_overlong: OnOverlong,
) -> tuple[list[int], LengthReport]:
    """Which rows stay. An answer is never cut: one that leaves its prompt no room cannot be truncated."""
    overlong = [i for i, length in enumerate(lengths) if length > max_tokens]
    limit = f"max_tokens={max_tokens}"
    hopeless = [rows[i].id for i in overlong if answer_lengths[i] >= max_tokens]
    if on_overlong == "truncate_left" and hopeless:
        raise DataError(
            f"answers of rows {_named(hopeless)} alone fill {limit}, and answers are never cut; "
            "accepted: a larger limit, or on_overlong=drop"
        )
    return _by_length(rows, overlong, limit=limit, on_overlong=on_overlong)


def _by_length(
    rows: Sequence[AnyRow],
    overlong: Sequence[int],
    *,
    limit: str,
    on_overlong: OnOverlong,
) -> tuple[list[int], LengthReport]:
    """Which rows stay, and the report; DataError under "error" and where no row stays."""
    named = tuple(rows[i].id for i in overlong)
    if named and on_overlong == "error":
        raise DataError(f"rows {_named(named)} are longer than {limit}; accepted: on_overlong=drop or truncate_left")
    gone = set(overlong) if on_overlong == "drop" else set()
    kept = [i for i in range(len(rows)) if i not in gone]
    if rows and not kept:
        raise DataError(f"no row left: all {len(rows)} are longer than {limit}")
    dropped, truncated = (named, ()) if on_overlong == "drop" else ((), named)
    return kept, LengthReport(kept=len(kept), dropped=dropped, truncated=truncated)


def _named(ids: Sequence[str]) -> str:
    """Row ids for a message, the first twenty."""
    more = f" and {len(ids) - 20} more" if len(ids) > 20 else ""
    return ", ".join(ids[:20]) + more
