"""Real faults: a size limit set by the kernel, a full device, a kill."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.errors import CheckpointError

PARTS = ("policy", "critic")
CHILD_IMPORTS = "import sys, time; from pathlib import Path; from rlhf_ray.checkpoint.store import CheckpointStore\n"
SAVE = """
def save(store, step, sizes):
    folder = store.begin(step)
    for part, size in sizes.items():
        (folder / part).mkdir()
        (folder / part / "weights").write_bytes(bytes(size))
    return store.commit(step, state={"note": "n" * 3000})
store = CheckpointStore(Path(sys.argv[1]), keep=1, parts=("policy", "critic"))
"""


@pytest.fixture
def store(tmp_path):
    """Holds a checkpoint of step 3."""
    store = CheckpointStore(tmp_path, keep=1, parts=PARTS)
    folder = store.begin(3)
    for part in PARTS:
        (folder / part).mkdir()
        (folder / part / "weights").write_bytes(b"step 3")
    store.commit(3, state={})
    return store


def run_child(root, code, *, size_limit):
    return subprocess.run(
        [sys.executable, "-c", CHILD_IMPORTS + SAVE + code, root],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size_limit, size_limit)),
        capture_output=True,
        text=True,
    )


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_a_worker_that_meets_a_size_limit_leaves_the_previous_checkpoint(store, tmp_path):
    child = run_child(tmp_path, "save(store, 4, {'policy': 100, 'critic': 100_000})", size_limit=10_000)
    assert "File too large" in child.stderr
    assert store.latest().step == 3
    store.begin(4)
    assert names(tmp_path) == [".step-000004.unfinished", "latest", "step-000003"]
    assert names(tmp_path / ".step-000004.unfinished") == []


def test_a_manifest_that_meets_a_size_limit_is_a_named_error_and_cleaned_up(store, tmp_path):
    child = run_child(tmp_path, "save(store, 4, {'policy': 100, 'critic': 100})", size_limit=1000)
    assert "CheckpointError: checkpoint 4 was not saved in" in child.stderr
    assert "File too large" in child.stderr
    assert store.latest().step == 3
    assert names(tmp_path) == ["latest", "step-000003"]


def test_a_full_device_under_one_part_leaves_the_previous_checkpoint(store, tmp_path):
    folder = store.begin(4)
    (folder / "policy").mkdir()
    (folder / "policy" / "weights").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        (folder / "policy" / "weights").write_bytes(b"step 4")
    store.abandon(4)
    assert store.latest().step == 3
    assert names(tmp_path) == ["latest", "step-000003"]


def test_a_kill_between_two_parts_leaves_the_previous_checkpoint_and_the_rest_is_cleaned(store, tmp_path):
    code = """
folder = store.begin(4)
(folder / "policy").mkdir()
(folder / "policy" / "weights").write_bytes(b"step 4")
print("policy saved", flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD_IMPORTS + SAVE + code, tmp_path], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "policy saved\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert store.latest().step == 3
    assert [checkpoint.step for checkpoint in store.complete()] == [3]
    store.abandon(4)
    store.begin(5)
    assert names(tmp_path) == [".step-000005.unfinished", "latest", "step-000003"]


def test_killed_at_any_moment_the_latest_is_complete_even_when_one_is_kept(store, tmp_path):
    code = """
print("go", flush=True)
for step in range(4, 100_000):
    save(store, step, {"policy": 3000, "critic": 5000})
"""
    reached = 3
    for delay_s in (0.01, 0.05, 0.11, 0.2, 0.333):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD_IMPORTS + SAVE + code, tmp_path], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout.readline() == "go\n"
            time.sleep(delay_s)
            child.kill()
        latest = CheckpointStore(tmp_path, keep=1, parts=PARTS).latest()
        assert latest is not None
        reached = max(reached, latest.step)
    assert reached > 3


def test_with_one_kept_the_old_one_is_there_until_the_new_one_is_the_latest(store, tmp_path):
    folder = store.begin(4)
    for part in PARTS:
        (folder / part).mkdir()
        (folder / part / "weights").write_bytes(b"step 4")
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()  # the pointer cannot be replaced: the last act before the removal fails
    with pytest.raises(CheckpointError, match="checkpoint 4 was not saved"):
        store.commit(4, state={})
    assert (tmp_path / "step-000003" / "manifest.json").exists()
    assert store.complete()[-1].step == 3


def test_a_checkpoint_device_that_turned_into_a_file_is_named(store, tmp_path):
    folder = store.begin(4)
    os.rename(folder, tmp_path / "elsewhere")  # noqa: PTH104  # the fault, not our way of writing
    folder.write_text("a file")
    with pytest.raises(CheckpointError, match="checkpoint 4 was not saved"):
        store.commit(4, state={})
    assert store.latest().step == 3
