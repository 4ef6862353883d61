"""A generator in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.errors import ConfigError, StaleGeneratorError
from rlhf_ray.generation.base import Generator
from rlhf_ray.generation.settings import HfSettings, VllmSettings
from rlhf_ray.types import Bucket, Completions, SampleRequest, Sampling, SyncReceipt, WeightManifest

if TYPE_CHECKING:
    from rlhf_ray.generation.vllm_generator import VllmGenerator


class GeneratorWorker(Worker):
    """Starts an engine for a model directory's architecture; its weights come from the policy's learner only."""

    def __init__(self, settings: VllmSettings | HfSettings) -> None:
        super().__init__()
        self._settings = settings
        self._generator: Generator | None = None

    @phase("start")
    def open(self, model_path: Path) -> None:
        """Start the engine for this architecture, without usable weights."""
        self._generator = None
        match self._settings:
            case VllmSettings():
                from rlhf_ray.generation.vllm_generator import VllmGenerator  # noqa: PLC0415  vLLM only where it is used

                self._generator = VllmGenerator(model_path, settings=self._settings)
            case HfSettings():
                from rlhf_ray.generation.hf_generator import HfGenerator  # noqa: PLC0415  as above

                self._generator = HfGenerator(model_path, settings=self._settings)
            case _:
                raise ConfigError(f"no generator takes {type(self._settings).__name__}")

    @phase("generate")
    def generate(self, request: SampleRequest, sampling: Sampling, version: int) -> Completions:
        """Answers in the request's order."""
        return self._opened().generate(request.prompts, sampling=sampling, seeds=request.seeds, version=version)

    @phase("sync")
    def begin_sync(self, manifest: WeightManifest) -> None:
        """See Generator."""
        self._opened().begin_sync(manifest)

    @phase("sync")
    def receive(self, bucket: Bucket) -> None:
        """See Generator."""
        self._opened().receive(bucket)

    @phase("sync")
    def finish_sync(self) -> SyncReceipt:
        """See Generator."""
        return self._opened().finish_sync()

    @phase("sync")
    def connect(self, init_info: Mapping[str, Any]) -> None:
        """Join a GPU transport's group (see weight_sync/device_channel.py)."""
        self._on_device().connect(init_info)

    @phase("sync")
    def receive_on_device(self, update_info: Mapping[str, Any]) -> None:
        """Load what a GPU transport brings."""
        self._on_device().receive_on_device(update_info)

    def _on_device(self) -> VllmGenerator:
        from rlhf_ray.generation.vllm_generator import VllmGenerator  # noqa: PLC0415  vLLM only where it is used

        generator = self._opened()
        if not isinstance(generator, VllmGenerator):
            raise ConfigError("generator.transport nccl and ipc need generator.backend=vllm")
        return generator

    def _opened(self) -> Generator:
        if self._generator is None:
            raise StaleGeneratorError("the generator has no engine: its start failed or was never asked for")
        return self._generator
