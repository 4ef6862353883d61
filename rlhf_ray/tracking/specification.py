"""What a run's data are: rows, what was left out of them, how long they are, how they are tokenized."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlhf_ray.data.tables import Tables

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_QUANTILES = {"min": 0.0, "p05": 0.05, "p50": 0.5, "p95": 0.95, "max": 1.0}


def length_figures(lengths: NDArray[np.int64]) -> dict[str, float]:
    """Quantiles and mean of token counts; nothing where there are no rows."""
    if not len(lengths):
        return {}
    quantiles = {name: float(np.quantile(lengths, share)) for name, share in _QUANTILES.items()}
    return quantiles | {"mean": float(lengths.mean())}


def data_specification(tables: Tables) -> dict[str, Any]:
    """Row counts and lengths of every kind of data there is."""
    lengths = {"prompts": tables.prompts.tokens.lengths, "held_out_prompts": tables.held_out_prompts.tokens.lengths}
    lengths |= {name.value: batch.sequences.tokens.lengths for name, batch in tables.row_sets.items()}
    return {
        "fingerprint": tables.fingerprint,
        "rows": asdict(tables.fates),
        "left_out": list(tables.notes),
        "tokens": {name: {"rows": len(found), **length_figures(found)} for name, found in lengths.items()},
    }


def tokenization(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The vocabulary's size, the tokens with a meaning of their own, and the template of conversations."""
    template = tokenizer.chat_template
    return {
        "entries": len(tokenizer),
        "special_tokens": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "chat_template": template if isinstance(template, str) else None,
    }
