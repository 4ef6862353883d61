"""Putting batches of answers together and picking rows from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlhf_ray.data.order import Rows
from rlhf_ray.types import Completions, Prompts, Ragged


def concat_prompts(parts: Sequence[Prompts]) -> Prompts:
    """The rows of all parts laid together."""
    return Prompts(
        ids=tuple(item for part in parts for item in part.ids),
        texts=tuple(item for part in parts for item in part.texts),
        tokens=Ragged.concat([part.tokens for part in parts]),
    )


def take_prompts(prompts: Prompts, rows: Rows) -> Prompts:
    """The named prompts, in the order given."""
    return Prompts(
        ids=tuple(prompts.ids[i] for i in rows),
        texts=tuple(prompts.texts[i] for i in rows),
        tokens=prompts.tokens.take(rows),
    )


def concat_completions(parts: Sequence[Completions], *, order: Rows) -> Completions:
    """The rows of all parts laid together, then put in this order."""
    whole = Completions(
        prompts=concat_prompts([part.prompts for part in parts]),
        tokens=Ragged.concat([part.tokens for part in parts]),
        texts=tuple(item for part in parts for item in part.texts),
        logprobs=Ragged.concat([part.logprobs for part in parts]),
        finish_reasons=tuple(item for part in parts for item in part.finish_reasons),
        versions=np.concatenate([part.versions for part in parts]),
    )
    return take_completions(whole, order)


def take_completions(completions: Completions, rows: Rows) -> Completions:
    """The named rows, in the order given."""
    return Completions(
        prompts=take_prompts(completions.prompts, rows),
        tokens=completions.tokens.take(rows),
        texts=tuple(completions.texts[i] for i in rows),
        logprobs=completions.logprobs.take(rows),
        finish_reasons=tuple(completions.finish_reasons[i] for i in rows),
        versions=completions.versions[rows],
    )
