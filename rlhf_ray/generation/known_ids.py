"""Keeps vLLM from drawing ids that belong to no token: embeddings often have more rows than the tokenizer has ids."""

from __future__ import annotations

from torch import Tensor, device
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

NUM_IDS = "rlhf_ray_num_ids"  # key of vLLM's additional_config


class KnownIdsOnly(LogitsProcessor):  # type: ignore[misc]  # vLLM is untyped here
    """Logits from the known number of ids on become -inf, before log-probs are taken."""

    def __init__(self, vllm_config: VllmConfig, device: device, is_pin_memory: bool) -> None:  # noqa: ARG002, FBT001  vLLM's signature
        self._num_ids = int(vllm_config.additional_config[NUM_IDS])

    def apply(self, logits: Tensor) -> Tensor:
        """[rows, vocabulary], changed in place."""
        logits[:, self._num_ids :] = float("-inf")
        return logits

    def is_argmax_invariant(self) -> bool:
        """A greedy choice could be one of these ids, too."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """The same for every request."""
