"""Both runtimes keep the same promises: order, refs, and errors that say who, what and where."""

import os
import signal

import psutil
import pytest
from probe_worker import ProbeWorker
from processes import free_cpus, soon

from rlhf_ray.actors.local_runtime import LocalRuntime
from rlhf_ray.actors.placement import Resources
from rlhf_ray.actors.ray_runtime import ClusterSettings, RayRuntime, cause_of_death, connect
from rlhf_ray.actors.worker import Worker
from rlhf_ray.errors import DataError, DivergedError, ResourceError, WorkerError
from rlhf_ray.types import Ref

SMALL = Resources(num_cpus=0.1, num_gpus=0, threads=3)
SETTINGS = ClusterSettings(address=None, object_store_bytes=1 << 27, strategy="PACK", wait_s=20, phase_limit_s=60)
IMPATIENT = ClusterSettings(address=None, object_store_bytes=1 << 27, strategy="PACK", wait_s=20, phase_limit_s=0.5)


@pytest.fixture(scope="module")
def ray_pair(ray_cluster):
    """A runtime and two workers."""
    runtime = RayRuntime({"one": SMALL, "two": SMALL}, SETTINGS)
    yield runtime, runtime.start("one", ProbeWorker, 1), runtime.start("two", ProbeWorker, 2)
    runtime.close()


@pytest.fixture(scope="module")
def local_pair():
    """A runtime and two workers."""
    runtime = LocalRuntime()
    return runtime, runtime.start("one", ProbeWorker, 1), runtime.start("two", ProbeWorker, 2)


@pytest.fixture(params=["local", "ray"])
def pair(request):
    runtime, *workers = request.getfixturevalue(f"{request.param}_pair")
    runtime.at("ppo iteration 7")
    return runtime, *workers


def gathered(runtime, begin) -> None:
    """Begin a call and wait for it: where calls run at once, the first may raise already."""
    runtime.gather([begin()])


def test_results_pass_from_worker_to_worker_as_refs(pair):
    runtime, one, two = pair
    first = runtime.call(one, ProbeWorker.add, 1, 2)
    second = runtime.call(two, ProbeWorker.add, first, 4)
    assert isinstance(first, Ref)
    assert second.label == "two.add"
    assert runtime.gather([second, first]) == [7, 3]


def test_calls_to_one_worker_run_in_the_order_they_were_begun(pair):
    runtime, one, _ = pair
    before = len(runtime.gather([runtime.call(one, ProbeWorker.history)])[0])
    for number in range(20):
        runtime.call(one, ProbeWorker.add, number, 0)
    assert runtime.gather([runtime.call(one, ProbeWorker.history)])[0][before:] == list(range(20))


@pytest.mark.parametrize("count", [1, 3])
def test_a_sequence_becomes_one_ref_an_item(pair, count):
    runtime, one, two = pair
    refs = runtime.call_many(one, ProbeWorker.counted, count, num_results=count)
    assert len(refs) == count
    assert runtime.gather([runtime.call(two, ProbeWorker.add, refs[-1], 10)]) == [count + 9]


def test_an_error_of_python_names_role_method_place_type_and_line(pair):
    runtime, one, _ = pair
    with pytest.raises(
        WorkerError, match=r"^ppo iteration 7: one\.divide failed: ZeroDivisionError: .* \(probe_worker\.py:\d+\)$"
    ):
        gathered(runtime, lambda: runtime.call(one, ProbeWorker.divide, 0))


def test_an_error_of_ours_keeps_its_type(pair):
    runtime, one, _ = pair
    with pytest.raises(DivergedError, match=r"^ppo iteration 7: one\.diverge: grad_norm is nan$"):
        gathered(runtime, lambda: runtime.call(one, ProbeWorker.diverge))


def test_the_worker_that_failed_is_named_not_the_one_that_needed_its_result(pair):
    runtime, one, two = pair
    with pytest.raises(WorkerError, match=r"^ppo iteration 7: one\.divide failed: ZeroDivisionError"):
        gathered(runtime, lambda: runtime.call(two, ProbeWorker.add, runtime.call(one, ProbeWorker.divide, 0), 1))


def test_a_worker_goes_on_after_an_error(pair):
    runtime, one, _ = pair
    with pytest.raises(WorkerError):
        gathered(runtime, lambda: runtime.call(one, ProbeWorker.divide, 0))
    assert runtime.gather([runtime.call(one, ProbeWorker.divide, 2)]) == [0.5]


def test_spans_are_told_once(pair):
    runtime, one, _ = pair
    runtime.gather([runtime.call(one, Worker.spans)])
    runtime.gather([runtime.call(one, ProbeWorker.add, 1, 1)])
    (spans,) = runtime.gather([runtime.call(one, Worker.spans)])
    assert [span.phase for span in spans] == ["update"]
    assert runtime.gather([runtime.call(one, Worker.spans)]) == [[]]


def test_workers_have_processes_and_threads_of_their_own(ray_pair):
    runtime, one, two = ray_pair
    ids = runtime.gather([runtime.call(worker, ProbeWorker.process_id) for worker in (one, two)])
    assert len({*ids, os.getpid()}) == 3
    asked = [runtime.call(one, ProbeWorker.environment, name) for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")]
    assert runtime.gather(asked) == ["3", "PASSIVE"]


def test_a_constructor_that_raises_is_told_with_its_own_error_local():
    with pytest.raises(DataError, match=r"^start: start of one: start=-1; accepted is 0 or more$"):
        LocalRuntime().start("one", ProbeWorker, -1)


def test_a_constructor_that_raises_is_told_by_every_call(ray_cluster):
    runtime = RayRuntime({"one": SMALL}, SETTINGS)
    worker = runtime.start("one", ProbeWorker, -1)
    for _ in range(2):
        with pytest.raises(DataError, match=r"^start: start of one: start=-1; accepted is 0 or more$"):
            runtime.gather([runtime.call(worker, ProbeWorker.history)])
    runtime.close()


def test_a_killed_process_is_told_with_its_role(ray_cluster):
    runtime = RayRuntime({"one": SMALL, "two": SMALL}, SETTINGS)
    one, two = runtime.start("one", ProbeWorker, 1), runtime.start("two", ProbeWorker, 2)
    (victim,) = runtime.gather([runtime.call(one, ProbeWorker.process_id)])
    runtime.at("ppo iteration 3")
    needed = runtime.call(two, ProbeWorker.add, runtime.call(one, ProbeWorker.sleep, 30), 1)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(
        WorkerError, match=r"^ppo iteration 3: the process of one died: .*for want of memory, or crashed$"
    ):
        runtime.gather([needed])
    assert runtime.gather([runtime.call(two, ProbeWorker.add, 1, 1)]) == [2]
    runtime.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "The actor died unexpectedly before finishing this task.\n\tclass_name: Shell\n\tpid: 6782\n"
            "\x1b[33mWorker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code 1. "
            "The process receives a SIGTERM.\x1b[0m",
            "Worker exits with an exit code 1. The process receives a SIGTERM.",
        ),
        (
            "Worker exit detail: Connection error code 2. End of file. Some common causes include: (1) the OOM killer",
            "Connection error code 2. End of file. "
            "It told no error: killed from outside, usually for want of memory, or crashed",
        ),
        ("The actor's node\nis gone.", "The actor's node is gone."),
    ],
)
def test_of_what_ray_says_about_a_death_only_the_cause_is_told(text, told):
    assert cause_of_death(text) == told


def test_a_late_worker_is_named_with_the_limit(ray_pair):
    _, one, two = ray_pair
    impatient = RayRuntime({"spare": SMALL}, IMPATIENT)
    quick, late = impatient.call(one, ProbeWorker.add, 1, 1), impatient.call(two, ProbeWorker.sleep, 2.0)
    with pytest.raises(WorkerError, match=r"^start: no answer from two\.sleep within placement\.phase_limit_s=0\.5$"):
        impatient.gather([quick, late])
    impatient.close()


def test_closing_ends_the_processes_and_frees_what_was_reserved(ray_cluster):
    import ray

    runtime = RayRuntime({"one": SMALL, "two": SMALL}, SETTINGS)
    workers = [runtime.start("one", ProbeWorker, 1), runtime.start("two", ProbeWorker, 2)]
    ids = runtime.gather([runtime.call(worker, ProbeWorker.process_id) for worker in workers])
    held = ray.available_resources()["CPU"]
    runtime.close()
    assert soon(lambda: not any(psutil.pid_exists(pid) for pid in ids), within_s=20)
    assert free_cpus(at_least=held + 0.2) >= held + 0.2 - 1e-6
    assert ray.is_initialized(), "the cluster was there before, and stays"


def test_a_cluster_without_token_is_not_started(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ResourceError, match="RAY_AUTH_MODE=token"):
        connect(SETTINGS)
