"""What is started once for all tests: a finished run, a Ray cluster, and open worker teams."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from processes import MARK, left_behind, soon
from small_run import LOCAL, ON_RAY, TWO_GENERATORS, Bench, small_config

CLUSTER_CPUS = 4


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of three stages in this process."""
    from rlhf_ray import pipeline

    run_dir = tmp_path_factory.mktemp("finished") / "run"
    # more optimizer steps of the reward model, so that it can be interrupted between two of them
    pipeline.run(small_config(run_dir, *LOCAL, "reward_model.batch_size=4"), command=())
    return run_dir


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One Ray cluster; at the end none of its processes is left."""
    import ray

    from rlhf_ray.actors.ray_runtime import own_sigterm_handler

    os.environ[MARK] = uuid.uuid4().hex
    # workers find the modules of the tests, and the package that is tested
    tests = Path(__file__).parent
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tests.parent), str(tests)])
    with own_sigterm_handler():
        ray.init(
            num_cpus=CLUSTER_CPUS,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=400 << 20,
            log_to_driver=False,
            configure_logging=False,
            _system_config={"prestart_worker_first_driver": False},
        )
    yield
    ray.shutdown()
    mark = os.environ.pop(MARK)
    assert soon(lambda: not left_behind(mark), within_s=20), [process.cmdline() for process in left_behind(mark)]


@contextmanager
def opened_bench(runtime_kind: type, run_dir: Path, trained: Path, words: tuple[str, ...]) -> Iterator[Bench]:
    """A team over the models of a finished run."""
    from rlhf_ray.pipeline import worker_settings
    from rlhf_ray.pipeline.start import open_team

    config = small_config(run_dir, *words, f"model.path={trained}/artifacts/base-model")
    with ExitStack() as stack:
        if config.placement.backend == "local":
            runtime = runtime_kind()
        else:
            runtime = runtime_kind(worker_settings.resources(config), worker_settings.cluster_settings(config))
        stack.callback(runtime.close)
        artifacts = trained / "artifacts"
        yield Bench(
            opened=open_team(runtime, config, run_dir),
            words=(*words, f"model.path={artifacts}/base-model"),
            policy=artifacts / "sft-policy",
            reward=artifacts / "reward-model",
        )


@pytest.fixture(scope="session")
def local_bench(finished_run, tmp_path_factory) -> Iterator[Bench]:
    """Two generators and all other workers in this process."""
    from faulty_workers import FaultyLocalRuntime

    words = (*LOCAL, TWO_GENERATORS)
    with opened_bench(FaultyLocalRuntime, tmp_path_factory.mktemp("local") / "run", finished_run, words) as bench:
        yield bench


@pytest.fixture(scope="session")
def ray_bench(ray_cluster, finished_run, tmp_path_factory) -> Iterator[Bench]:
    """Two generators and all other workers as Ray actors."""
    from faulty_workers import FaultyRayRuntime

    words = (*ON_RAY, TWO_GENERATORS)
    with opened_bench(FaultyRayRuntime, tmp_path_factory.mktemp("ray") / "run", finished_run, words) as bench:
        yield bench


@pytest.fixture(scope="session")
def vllm_bench(ray_bench, tmp_path_factory) -> Iterator[Bench]:
    """Two vLLM generators with the other workers of the Ray team."""
    from faulty_workers import FaultyRayRuntime

    from rlhf_ray.actors.generator_worker import GeneratorWorker
    from rlhf_ray.actors.team import Team
    from rlhf_ray.actors.transport import ObjectStoreTransport
    from rlhf_ray.pipeline import worker_settings

    words = (*(word for word in ray_bench.words if word != "generator=hf"), "generator=vllm")
    config = small_config(tmp_path_factory.mktemp("vllm") / "run", *words)
    roles = {
        role: wanted for role, wanted in worker_settings.resources(config).items() if role.startswith("generator-")
    }
    runtime = FaultyRayRuntime(roles, worker_settings.cluster_settings(config))
    opened = ray_bench.opened
    generators = tuple(
        runtime.start(role, GeneratorWorker, worker_settings.generator_settings(config)) for role in roles
    )
    workers = dataclasses.replace(opened.team.workers, generators=generators)
    team = Team(
        runtime,
        workers,
        transport=ObjectStoreTransport(runtime, workers.policy, generators),
        sampling=opened.team.sampling,
        probe=worker_settings.probe_settings(config),
    )
    runtime.gather(team.open_generators(opened.base_model))
    yield dataclasses.replace(ray_bench, opened=dataclasses.replace(opened, team=team), words=words)
    runtime.close()


@pytest.fixture(params=["local", "ray", pytest.param("vllm", marks=pytest.mark.slow)])
def bench(request) -> Bench:
    """Each team."""
    return request.getfixturevalue(f"{request.param}_bench")
