"""The driver's memory does not grow with the batch: what is made by workers stays with them."""

import dataclasses
import gc
import os
import threading
import time
from collections.abc import Callable

import psutil
import pytest
from scripted_workers import ScriptedGenerator, ScriptedModel

from rlhf_ray.actors.placement import Resources
from rlhf_ray.actors.ppo_team import ActorPpoTeam
from rlhf_ray.actors.ray_runtime import ClusterSettings, RayRuntime
from rlhf_ray.actors.team import ProbeSettings, Team
from rlhf_ray.actors.transport import ObjectStoreTransport
from rlhf_ray.loops.ppo import PpoSettings, PpoState, iteration
from rlhf_ray.pipeline import stage_settings

TOKENS = 8192  # of every answer
BATCH = 16  # answers; and 16 times as many
BOUND = 8 << 20  # bytes
MODELS = ("policy", "critic", "reference", "reward")
GENERATORS = ("generator-0", "generator-1")


@pytest.fixture(scope="module")
def ppo_of(ray_bench, ray_cluster, tmp_path_factory):
    """(batch size) -> a PPO team of the real data worker and scripted models, and the loop's settings."""
    limits = ClusterSettings(address=None, object_store_bytes=0, strategy="PACK", wait_s=20, phase_limit_s=120)
    small = Resources(num_cpus=0.05, num_gpus=0, threads=1)
    runtime = RayRuntime(dict.fromkeys((*MODELS, *GENERATORS), small), limits)
    models = {role: runtime.start(role, ScriptedModel) for role in MODELS}
    generators = tuple(runtime.start(role, ScriptedGenerator) for role in GENERATORS)
    workers = dataclasses.replace(ray_bench.opened.team.workers, **models, generators=generators)
    team = Team(
        runtime,
        workers,
        transport=ObjectStoreTransport(runtime, workers.policy, generators),
        sampling=dataclasses.replace(ray_bench.opened.team.sampling, max_new_tokens=TOKENS),
        probe=ProbeSettings(num_prompts=4, max_new_tokens=8, limit=1e-3),
    )

    config = ray_bench.config(tmp_path_factory.mktemp("run") / "run")
    parts = stage_settings.ppo_team_settings(config, has_demonstrations=False, retokenize=False)
    loop = stage_settings.ppo_settings(config)

    def make(batch_size: int) -> tuple[ActorPpoTeam, PpoSettings]:
        experience = dataclasses.replace(parts.experience, max_new_tokens=TOKENS)
        ppo_team = ActorPpoTeam(team, dataclasses.replace(parts, batch_size=batch_size, experience=experience))
        return ppo_team, dataclasses.replace(loop, episodes=batch_size)

    yield make
    runtime.close()


def peak_growth(work: Callable[[], object]) -> int:
    """How much this process grew at most, sampled every 5 ms, while `work` ran."""
    process, done, seen = psutil.Process(os.getpid()), threading.Event(), []

    def watch() -> None:
        while not done.is_set():
            seen.append(process.memory_info().rss)
            time.sleep(0.005)

    gc.collect()
    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        kept = work()
        seen.append(process.memory_info().rss)
        del kept
    finally:
        done.set()
        watcher.join()
    return max(seen) - before


def run_iterations(ppo_of, batch_size: int) -> Callable[[], object]:
    """Two whole iterations of the loop."""
    team, loop = ppo_of(batch_size)

    def work() -> object:
        state = PpoState(step=0, kl_coef=0.05, learning_rate_share=1.0)
        for _ in range(2):
            state, stats = iteration(team, loop, state)
            assert stats["policy/grad_norm"].total >= batch_size * TOKENS
        return state

    return work


def test_an_iteration_16_times_as_large_takes_the_driver_no_more_memory(ppo_of):
    run_iterations(ppo_of, BATCH)()  # imports and first allocations
    small = peak_growth(run_iterations(ppo_of, BATCH))
    large = peak_growth(run_iterations(ppo_of, 16 * BATCH))
    assert large - small < BOUND, (small, large)


def test_a_driver_that_fetched_the_batch_would_be_caught(ppo_of):
    """One of the batch's five objects is enough."""
    team, _ = ppo_of(16 * BATCH)

    def fetch() -> object:
        completions = team.generate(0)
        (fetched,) = team._team.runtime.gather([completions])
        return fetched, int(fetched.tokens.values.sum() + fetched.logprobs.values.sum())

    assert peak_growth(fetch) > 2 * BOUND
