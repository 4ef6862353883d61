"""Start the workers of a run, side by side, and open its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker, RowCounts
from rlhf_ray.actors.frozen_workers import ReferenceWorker, RewardWorker
from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.local_runtime import LocalRuntime
from rlhf_ray.actors.ray_runtime import RayRuntime
from rlhf_ray.actors.runtime import Runtime
from rlhf_ray.actors.team import Team, Workers
from rlhf_ray.actors.transport import DeviceTransport, ObjectStoreTransport, Transport
from rlhf_ray.config.derived import is_tiny
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.files import files_of
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.pipeline import worker_settings


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A team that can work."""

    team: Team
    rows: RowCounts
    base_model: Path  # what the policy starts from before any stage


def open_runtime(config: TrainConfig) -> Runtime:
    """Ray actors, or plain objects in this process."""
    if config.placement.backend == "local":
        return LocalRuntime()
    return RayRuntime(worker_settings.resources(config), worker_settings.cluster_settings(config))


def start_workers(runtime: Runtime, config: TrainConfig, run_dir: Path) -> Workers:
    """All workers at once; their imports and constructors run side by side."""
    placement, learner = config.placement, config.learner
    return Workers(
        data=runtime.start("data", DataWorker, worker_settings.data_settings(config, run_dir)),
        policy=runtime.start(
            "policy",
            LearnerWorker,
            worker_settings.learner_settings(config, role=placement.policy),
        ),
        critic=runtime.start(
            "critic",
            LearnerWorker,
            worker_settings.learner_settings(config, role=placement.critic),
        ),
        reference=runtime.start(
            "reference",
            ReferenceWorker,
            worker_settings.distribution(config),
            learner.micro_batch_tokens,
            placement.reference.threads,
        ),
        reward=runtime.start("reward", RewardWorker, learner.micro_batch_tokens, placement.reward.threads),
        generators=tuple(
            runtime.start(f"generator-{i}", GeneratorWorker, worker_settings.generator_settings(config))
            for i in range(config.generator.num_replicas)
        ),
    )


def open_team(runtime: Runtime, config: TrainConfig, run_dir: Path) -> Opened:
    """Start the workers, open the data and, with it, a new model where none is given; engines begin to start."""
    workers = start_workers(runtime, config, run_dir)
    base_model = run_dir / "artifacts" / "base-model" if config.model.path is None else Path(config.model.path)
    if config.model.path is None and config.model.new == "smollm2":
        runtime.gather([runtime.call(workers.data, DataWorker.make_smollm2, base_model)])
    new_model = worker_settings.new_model(config) if is_tiny(config) else None
    if config.data.prompts is None:
        rows = runtime.call(
            workers.data,
            DataWorker.open_built_in,
            config.data.built_in,
            worker_settings.corpus_sizes(config),
            base_model,
            new_model,
        )
    else:
        rows = runtime.call(workers.data, DataWorker.open_files, files_of(config), base_model, new_model)
    (counts,) = runtime.gather([rows])
    team = Team(
        runtime,
        workers,
        sampling=worker_settings.sampling(config, inspect_model(base_model).eos_token_ids),
        transport=open_transport(runtime, workers, config),
        probe=worker_settings.probe_settings(config),
    )
    team.open_generators(base_model)
    return Opened(team=team, rows=counts, base_model=base_model)


def open_transport(runtime: Runtime, workers: Workers, config: TrainConfig) -> Transport:
    """How weights travel."""
    kind = config.generator.transport
    if kind == "object_store":
        return ObjectStoreTransport(runtime, workers.policy, workers.generators)
    return DeviceTransport(
        runtime, workers.policy, workers.generators, kind=kind, ranks=config.generator.tensor_parallel_size
    )
