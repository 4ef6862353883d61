"""Weights are fresh, whole and known to be; what goes wrong on the way is named, and sending again heals it."""

import dataclasses
import time

import numpy as np
import pytest
from faulty_workers import SLEEP_S, FaultyGenerator

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.generator_worker import GeneratorWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.actors.placement import Resources
from rlhf_ray.actors.ray_runtime import ClusterSettings, RayRuntime
from rlhf_ray.actors.team import Team
from rlhf_ray.actors.transport import ObjectStoreTransport
from rlhf_ray.algorithms.losses import SftLoss
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.errors import StaleGeneratorError, SyncError, WorkerError
from rlhf_ray.types import Minibatch

NAMED = {
    "dropped name": (SyncError, r"generator-1\.begin_sync: .*missing: model\.layers\.0\.self_attn\.k_proj\.weight"),
    "extra name": (SyncError, r"generator-1\.begin_sync: .*unknown to the model: model\.layers\.9\.self_attn\.k_proj"),
    "wrong shape": (SyncError, r"generator-1\.begin_sync: .*unlike the model: model\.layers\.0\.self_attn\.k_proj"),
    "flipped byte": (SyncError, r"generator-1\.receive: bucket 1 was damaged on the way"),
    "lost bucket": (SyncError, r"generator-1\.receive: bucket 2 came too early; bucket 1 is next"),
    "raises midway": (WorkerError, r"generator-1\.receive failed: RuntimeError: the cable is loose"),
}


@pytest.fixture
def team(bench, tmp_path) -> Team:
    """Fresh models and version 0 everywhere."""
    bench.open_models(tmp_path / "models")
    return bench.opened.team


def answers_of(team: Team, generator: int, *, version: int, temperature: float = 0.0):
    """One generator's greedy answers to the probe's prompts."""
    call, worker = team.runtime.call, team.workers.generators[generator]
    request = call(team.workers.data, DataWorker.probe_request, 4)
    sampling = dataclasses.replace(team.sampling, temperature=temperature, num_samples=1)
    return call(worker, GeneratorWorker.generate, request, sampling, version)


def misbehave(team: Team, fault: str) -> None:
    """The second generator's channel."""
    team.runtime.gather([team.runtime.call(team.workers.generators[1], FaultyGenerator.misbehave, fault)])


def take_one_step(team: Team, *, learning_rate: float) -> None:
    """A step on demonstrations, large enough to change what is most probable."""
    train = HandedRows(team, RowSet.DEMONSTRATIONS).take(np.arange(32))
    plan = [Minibatch(rows=np.arange(32), learning_rate=learning_rate, epoch=0)]
    team.runtime.gather([team.runtime.call(team.workers.policy, LearnerWorker.update, train, plan, SftLoss(), None)])


def require_healed(team: Team, *, version: int) -> None:
    """Everything is sent once more and both generators say the same as the learner (the probe's limit: 1e-3)."""
    misbehave(team, "")
    assert team.sync(version)["sync/probe_gap"].value < 1e-4
    first, second = team.runtime.gather([answers_of(team, i, version=version) for i in (0, 1)])
    assert np.array_equal(first.tokens.values, second.tokens.values)


def test_after_a_step_both_generators_confirm_the_same_bytes_and_answer_with_them(team):
    runtime, workers = team.runtime, team.workers
    old = runtime.gather([answers_of(team, i, version=0) for i in (0, 1)])
    take_one_step(team, learning_rate=0.05)
    receipts = ObjectStoreTransport(runtime, workers.policy, workers.generators).send(1)
    assert [receipt.version for receipt in receipts] == [1, 1]
    assert len({receipt.digest for receipt in receipts}) == 1
    new = runtime.gather([answers_of(team, i, version=1) for i in (0, 1)])
    assert old[0].texts == old[1].texts
    assert new[0].texts == new[1].texts
    assert all(before != after for before, after in zip(old[0].texts, new[0].texts, strict=True))
    (known,) = runtime.gather([runtime.call(workers.policy, LearnerWorker.logprobs, new[0])])
    assert np.abs(known.values - new[0].logprobs.values).max() < 1e-4


def test_equal_weights_have_equal_digests_and_a_step_changes_them(team):
    transport = ObjectStoreTransport(team.runtime, team.workers.policy, team.workers.generators)
    first, again = transport.send(1), transport.send(2)
    assert first[0].digest == again[0].digest
    take_one_step(team, learning_rate=1e-3)
    assert transport.send(3)[0].digest != first[0].digest


@pytest.mark.parametrize("fault", NAMED)
def test_a_fault_in_transit_is_named_its_generator_stands_still_and_sending_again_heals_it(team, fault):
    kind, told = NAMED[fault]
    misbehave(team, fault)
    with pytest.raises(kind, match=told):
        team.sync(1)
    with pytest.raises(StaleGeneratorError, match=r"generator-1\.generate: "):
        team.runtime.gather([answers_of(team, 1, version=1)])
    with pytest.raises(StaleGeneratorError, match=r"generator-1\.generate: "):
        team.runtime.gather([answers_of(team, 1, version=0)])
    require_healed(team, version=1)


def test_a_generator_that_sleeps_past_the_limit_is_named_in_time_and_heals(ray_bench, tmp_path):
    ray_bench.open_models(tmp_path / "models")
    patient = ray_bench.opened.team
    limits = ClusterSettings(address=None, object_store_bytes=0, strategy="PACK", wait_s=20, phase_limit_s=1.0)
    runtime = RayRuntime({"spare": Resources(num_cpus=0.1, num_gpus=0, threads=1)}, limits)
    hurried = ObjectStoreTransport(runtime, patient.workers.policy, patient.workers.generators)
    misbehave(patient, "sleeps")
    began = time.monotonic()
    with pytest.raises(WorkerError, match=r"no answer from .*generator-1\.\w+.* within placement\.phase_limit_s=1"):
        hurried.send(1)
    assert time.monotonic() - began < SLEEP_S
    runtime.close()
    require_healed(patient, version=1)


def test_weights_in_the_wrong_place_are_found_by_the_probe(team):
    """Right bytes, right digest, and yet another temperature: only the log-probs can tell."""
    team.sync(1)
    sampling = team.sampling
    team.sampling = dataclasses.replace(sampling, temperature=0.7)
    try:
        with pytest.raises(SyncError, match=r"after the sync of version 2 generator and learner disagree by"):
            team.sync(2)
    finally:
        team.sampling = sampling
