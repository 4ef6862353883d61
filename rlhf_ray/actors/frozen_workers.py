"""The two models that never change: the reference and the reward model."""

from __future__ import annotations

from pathlib import Path

import torch

from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.learner.forward import TokenDistribution, over_known_ids, policy_outputs
from rlhf_ray.models.language_model import LanguageModel
from rlhf_ray.models.load import load_language_model
from rlhf_ray.reward.model_scorer import ModelScorer
from rlhf_ray.types import Completions, Ragged, Rewards, join


class ReferenceWorker(Worker):
    """The frozen start of the policy."""

    def __init__(self, distribution: TokenDistribution, max_tokens: int, threads: int) -> None:
        super().__init__()
        torch.set_num_threads(threads)
        self._distribution = distribution
        self._max_tokens = max_tokens
        self._model: LanguageModel | None = None

    @phase("start")
    def open(self, path: Path, device: str) -> None:
        """Load the model."""
        self._model = load_language_model(path, dtype=torch.float32).to(device)
        self._distribution = over_known_ids(self._distribution, path)

    @phase("reference")
    def logprobs(self, completions: Completions) -> Ragged:
        """Log-probs of the answers' tokens, as the reference says them."""
        assert self._model is not None, "open a model first"
        sequences = join(completions.prompts.tokens, completions.tokens)
        outputs = policy_outputs(self._model, sequences, max_tokens=self._max_tokens, distribution=self._distribution)
        return outputs.logprobs


class RewardWorker(Worker):
    """The reward model."""

    def __init__(self, max_tokens: int, threads: int) -> None:
        super().__init__()
        torch.set_num_threads(threads)
        self._max_tokens = max_tokens
        self._scorer: ModelScorer | None = None

    @phase("start")
    def open(self, path: Path, head: str, device: str) -> None:
        """Load the model, whose score is made by the tensor `head`."""
        self._scorer = ModelScorer(path, max_tokens=self._max_tokens, device=device, head=head)

    @phase("score")
    def score(self, completions: Completions) -> Rewards:
        """See Scorer."""
        assert self._scorer is not None, "open a model first"
        return self._scorer.score(completions)
