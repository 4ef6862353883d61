"""vLLM's side of a transfer in buckets: a weight-transfer engine named "object_store".

vLLM checks neither completeness nor digests; SyncReceiver does, before anything reaches this engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.model_loader.mtp_validation import disable_mtp_completeness_check
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

NAME = "object_store"


@dataclass
class ObjectStoreInitInfo(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM's classes are untyped here
    """Buckets need no rendezvous."""


@dataclass
class ObjectStoreUpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]  # as above
    """One bucket's tensors by Hugging Face name. vLLM may keep them until their layer is complete."""

    tensors: Sequence[tuple[str, torch.Tensor]]


class ObjectStoreEngine(
    WeightTransferEngine[ObjectStoreInitInfo, ObjectStoreUpdateInfo]  # type: ignore[misc]  # as above
):
    """Loads buckets within vLLM's layer-wise reload, as its own engines do.

    Layers are put back on their unpacked form at the start; each is packed again for the CPU's or GPU's kernels once
    its last tensor has come, in place, so compiled graphs stay valid.
    """

    init_info_cls = ObjectStoreInitInfo
    update_info_cls = ObjectStoreUpdateInfo

    def init_transfer_engine(self, init_info: ObjectStoreInitInfo) -> None:
        """Nothing to connect."""

    def start_weight_update(self) -> None:
        """Make every layer ready to be loaded again."""
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: ObjectStoreUpdateInfo) -> None:
        """Load one bucket.

        vLLM ends its update session when this raises, but leaves the layers half open, and then no later update can
        load ("no attribute 'weight_loader'"): close them, so that sending everything again heals the model. What this
        cannot undo is a tensor of the wrong shape inside a partly loaded fused layer; SyncReceiver lets none through.
        """
        try:
            with disable_mtp_completeness_check():
                self.model.load_weights(update_info.tensors)
        except BaseException:
            finalize_layerwise_reload(self.model, self.model_config)
            raise

    def finish_weight_update(self) -> None:
        """Close all layers."""
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Nothing to release."""


@cache
def register() -> None:
    """Tell vLLM of the engine, once per process. Also called by vLLM in its own workers, as a plugin.

    Raises ValueError when another package has taken the name.
    """
    WeightTransferEngineFactory.register_engine(NAME, ObjectStoreEngine)
