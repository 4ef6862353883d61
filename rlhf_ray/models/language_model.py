"""A decoder-only language model as hidden states plus an output projection, so that logits exist only where needed.

Sequences are padded on the right. Under causal attention no real token sees the padding, and positions count from 0 in
every row, so neither an attention mask nor position ids are passed, for rotary and absolute positions alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


class LanguageModel(nn.Module):
    """Wraps a Hugging Face causal language model. Dropout is off: loaders set its rates to 0."""

    def __init__(self, causal: PreTrainedModel) -> None:
        super().__init__()
        self.causal = causal
        self.eval()

    @property
    def tied(self) -> bool:
        """Whether the output head and the input embedding are one tensor."""
        return self.causal.get_output_embeddings().weight is self.causal.get_input_embeddings().weight

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def hidden_states(self, input_ids: Tensor) -> Tensor:
        """[b, L] -> [b, L, d], as the output head reads them."""
        hidden: Tensor = self.causal.get_decoder()(input_ids=input_ids, use_cache=False).last_hidden_state
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """[n, d] -> logits [n, V]."""
        logits: Tensor = self.causal.get_output_embeddings()(hidden)
        return logits

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter by its Hugging Face name; a tied head appears under its own name too."""
        for name, parameter in self.causal.named_parameters(remove_duplicate=False):
            yield name, parameter.detach()
