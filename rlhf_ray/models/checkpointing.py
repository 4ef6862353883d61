"""Gradient checkpointing: layers are computed again on the way back, so that their activations need no memory."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel


def checkpoint_layers(model: PreTrainedModel) -> None:
    """Turn it on. transformers looks at it in training mode only, which with all dropout rates at 0 changes nothing."""
    rates = {module.p for module in model.modules() if isinstance(module, nn.Dropout)}
    assert rates <= {0.0}, f"dropout rates {sorted(rates)}: loaders set them to 0"
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
