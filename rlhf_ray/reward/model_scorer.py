"""A reward model as a scorer: same tokenizer as the policy, so it reads the sampled ids themselves."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch

from rlhf_ray.data.lengths import cut_prompts_left
from rlhf_ray.errors import DivergedError, ModelError
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.load import HeadStart, load_scalar_model
from rlhf_ray.models.scalar_forward import scalar_outputs
from rlhf_ray.types import Completions, RewardPart, Rewards, Sequences, join

log = logging.getLogger(__name__)


class ModelScorer:
    """Follows reward/base.py. The score is read at the last token, which is the end token of a finished answer."""

    def __init__(self, path: Path, *, max_tokens: int, device: str, head: str) -> None:
        directory = inspect_model(path)
        self._path = path
        self._context_length = directory.context_length
        self._bos_token_id = directory.bos_token_id
        self._max_tokens = max_tokens
        self._model = load_scalar_model(path, start=HeadStart.STORED, head=head, seed=0, dtype=torch.float32)
        self._model.to(device)

    def score(self, completions: Completions) -> Rewards:
        """See Scorer. Raises DivergedError naming the first prompt whose score is not finite."""
        sequences = self._fit(join(completions.prompts.tokens, completions.tokens), completions)
        scores = scalar_outputs(self._model, sequences, max_tokens=self._max_tokens).scores.values.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):
            raise DivergedError(
                f"{self._path} gives {scores[bad[0]]} for an answer to prompt {completions.prompts.ids[bad[0]]} "
                f"({len(bad)} of {len(scores)} scores are not finite)"
            )
        return Rewards(scores=scores, parts=(RewardPart(name="model", values=scores),))

    def _fit(self, sequences: Sequences, completions: Completions) -> Sequences:
        """Cut prompts on the left where prompt and answer exceed the reward model's context; never the answer."""
        limit = self._context_length
        if limit is None:
            return sequences
        overlong = np.flatnonzero(completions.tokens.lengths >= limit)
        if len(overlong):
            raise ModelError(
                f"{self._path} reads {limit} tokens, but an answer to prompt {completions.prompts.ids[overlong[0]]} "
                f"alone has {completions.tokens.lengths[overlong[0]]}; lower max_new_tokens or take one that reads more"
            )
        fitted, num_cut = cut_prompts_left(sequences, max_tokens=limit, bos_token_id=self._bos_token_id)
        if num_cut:
            log.warning(
                "reward model %s: %d of %d prompts cut on the left to fit its %d tokens",
                self._path,
                num_cut,
                len(sequences.tokens),
                limit,
            )
        return fitted
