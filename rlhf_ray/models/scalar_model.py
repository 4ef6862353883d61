"""A decoder with one output: the reward model, and the critic, which is a copy of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlhf_ray.errors import ModelError


class ScalarModel(nn.Module):
    """score(h) = (head(h) - mean) / std. Wraps a Hugging Face *ForSequenceClassification with one label.

    Dropout is off: loaders set its rates to 0. Padding: see language_model.py.
    """

    score_mean: Tensor
    score_std: Tensor

    def __init__(self, classifier: PreTrainedModel, *, mean: float, std: float) -> None:
        super().__init__()
        self.classifier = classifier
        weight = classifier.score.weight
        self.register_buffer("score_mean", torch.tensor(mean, dtype=weight.dtype, device=weight.device))
        self.register_buffer("score_std", torch.tensor(std, dtype=weight.dtype, device=weight.device))
        self.eval()

    @property
    def device(self) -> torch.device:
        return self.score_mean.device

    def hidden_states(self, input_ids: Tensor) -> Tensor:
        """[b, L] -> [b, L, d], as the head reads them."""
        hidden: Tensor = self.classifier.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        return hidden

    def score(self, hidden: Tensor) -> Tensor:
        """[n, d] -> [n]."""
        raw: Tensor = self.classifier.score(hidden).squeeze(-1)
        return (raw - self.score_mean) / self.score_std

    def normalize(self, *, mean: float, std: float) -> None:
        """Shift and scale so that scores which now have this mean and std come to have 0 and 1.

        Raises ModelError for a std that is not a positive finite number, as when all scores are equal.
        """
        if not (math.isfinite(mean) and math.isfinite(std) and std > 0):
            raise ModelError(f"scores with mean {mean} and std {std} cannot be normalised; std must be above 0")
        self.score_mean += self.score_std * mean
        self.score_std *= std

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter by its Hugging Face name."""
        for name, parameter in self.classifier.named_parameters():
            yield name, parameter.detach()
