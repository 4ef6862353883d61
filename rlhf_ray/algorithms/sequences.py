"""Prompt and response laid together, as models read them."""

from __future__ import annotations

import numpy as np

from rlhf_ray.types import Ragged, Sequences


def join(prompts: Ragged, responses: Ragged) -> Sequences:
    """One sequence a row: the prompt's tokens, then the response's."""
    rows = [np.concatenate(pair) for pair in zip(prompts.rows(), responses.rows(), strict=True)]
    return Sequences(tokens=Ragged.from_rows(rows, np.int32), prompt_lengths=prompts.lengths)
