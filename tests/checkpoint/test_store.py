import json
import shutil

import pytest

from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.errors import CheckpointError

PARTS = ("policy", "critic")


def write_part(folder, name, content):
    (folder / name).mkdir()
    (folder / name / "weights").write_bytes(content)


def save(store, step, *, content=b"0123456789"):
    folder = store.begin(step)
    for part in PARTS:
        write_part(folder, part, content)
    return store.commit(step, state={"step": step})


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_a_committed_checkpoint_is_the_latest_with_its_parts_and_state(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints", keep=2, parts=PARTS)
    assert store.latest() is None
    folder = store.begin(20)
    for part in PARTS:
        write_part(folder, part, part.encode())
    state = {"kl_coef": 0.1 + 0.2, "rng": [2**127, -1], "rows": {"9": "a", "10": "b"}, "none": None}
    path = store.commit(20, state=state)
    found = store.latest()
    assert path == tmp_path / "checkpoints" / "step-000020"
    assert (found.path, found.step, found.state) == (path, 20, state)
    assert (found.part("critic") / "weights").read_bytes() == b"critic"
    assert names(tmp_path / "checkpoints") == ["latest", "step-000020"]


def test_another_process_finds_the_same_checkpoint(tmp_path):
    save(CheckpointStore(tmp_path, keep=1, parts=PARTS), 3)
    assert CheckpointStore(tmp_path, keep=1, parts=PARTS).latest().step == 3


def test_integer_keys_of_the_state_come_back_as_json_writes_them(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=("policy",))
    write_part(store.begin(1), "policy", b"x")
    store.commit(1, state={9: "a", 10: "b"})
    assert store.latest().state == {"9": "a", "10": "b"}


def test_those_beyond_keep_are_removed_oldest_first(tmp_path):
    store = CheckpointStore(tmp_path, keep=2, parts=PARTS)
    for step in (5, 10, 100, 1_000_000):
        save(store, step)
    assert names(tmp_path) == ["latest", "step-000100", "step-1000000"]


def test_a_missing_part_is_refused_and_the_previous_checkpoint_stays_the_latest(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=PARTS)
    save(store, 3)
    folder = store.begin(4)
    write_part(folder, "policy", b"x")
    (folder / "critic").mkdir()
    with pytest.raises(CheckpointError, match=r"checkpoint 4 was not saved.*lacks \['critic'\]"):
        store.commit(4, state={})
    assert store.latest().step == 3
    assert names(tmp_path) == ["latest", "step-000003"]


def test_a_part_may_be_a_file_and_an_empty_checkpoint_is_refused(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=("weights",))
    (store.begin(1) / "weights").write_bytes(b"x")
    store.commit(1, state={})
    assert store.latest().step == 1
    store = CheckpointStore(tmp_path, keep=1, parts=())
    store.begin(2)
    with pytest.raises(CheckpointError, match="checkpoint 2 was not saved"):
        store.commit(2, state={})


def test_a_state_that_json_cannot_hold_is_refused_and_named(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=("policy",))
    for state in ({"kl": float("nan")}, {"kl": object()}):
        write_part(store.begin(1), "policy", b"x")
        with pytest.raises(CheckpointError, match="state of checkpoint 1 is not plain JSON"):
            store.commit(1, state=state)
    assert names(tmp_path) == []


def test_abandon_leaves_no_trace(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=("policy",))
    write_part(store.begin(1), "policy", b"x")
    store.abandon(1)
    assert names(tmp_path) == []
    assert store.latest() is None


def damage_content(folder):
    (folder / "policy" / "weights").write_bytes(b"012345678X")


def damage_size(folder):
    (folder / "policy" / "weights").write_bytes(b"01234")


def damage_missing(folder):
    (folder / "policy" / "weights").unlink()


def damage_state(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["state"]["step"] = 21
    path.write_text(json.dumps(content))


def damage_manifest(folder):
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])


def remove_manifest(folder):
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_content, r"policy/weights has other content \(sha256:"),
        (damage_size, "policy/weights has 5 bytes instead of 10"),
        (damage_missing, "policy/weights is missing"),
        (damage_state, r"manifest\.json was changed after it was written"),
        (damage_manifest, r"manifest\.json cannot be read as a manifest"),
        (remove_manifest, r"manifest\.json cannot be read as a manifest"),
    ],
)
def test_damage_is_an_error_that_names_the_file_and_older_ones_are_offered(tmp_path, damage, message):
    store = CheckpointStore(tmp_path, keep=3, parts=PARTS)
    for step in (5, 10, 20):
        save(store, step)
    damage(tmp_path / "step-000020")
    with pytest.raises(CheckpointError, match=f"step-000020.*{message}"):
        store.latest()
    assert [checkpoint.step for checkpoint in store.complete()] == [10, 5]


def test_saving_goes_on_after_a_fallback_and_later_ones_are_removed(tmp_path):
    store = CheckpointStore(tmp_path, keep=2, parts=PARTS)
    save(store, 10)
    save(store, 20)
    damage_content(tmp_path / "step-000020")
    save(store, 12)  # continued from 10
    assert store.latest().step == 12
    assert names(tmp_path) == ["latest", "step-000010", "step-000012"]


def test_a_pointer_to_nothing_is_an_error_that_says_what_there_is(tmp_path):
    store = CheckpointStore(tmp_path, keep=2, parts=PARTS)
    save(store, 5)
    save(store, 10)
    shutil.rmtree(tmp_path / "step-000010")
    with pytest.raises(CheckpointError, match=r"latest names 'step-000010'.*\['step-000005'\]"):
        store.latest()
    (tmp_path / "latest").write_text("")
    with pytest.raises(CheckpointError, match="latest names ''"):
        store.latest()


def test_the_same_step_can_be_saved_again(tmp_path):
    store = CheckpointStore(tmp_path, keep=2, parts=PARTS)
    save(store, 5)
    save(store, 10, content=b"first")
    save(store, 10, content=b"again")
    assert (store.latest().part("policy") / "weights").read_bytes() == b"again"
    assert names(tmp_path) == ["latest", "step-000005", "step-000010-2"]
    save(store, 10, content=b"third")
    assert names(tmp_path) == ["latest", "step-000005", "step-000010-3"]


def test_too_little_room_is_refused_before_anything_is_written(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, parts=PARTS)
    save(store, 5)
    free = shutil.disk_usage(tmp_path).free
    with (tmp_path / "step-000005" / "policy" / "weights").open("r+b") as sparse:
        sparse.truncate(free + 10**9)
    with pytest.raises(CheckpointError, match=r"no room for checkpoint 10 in .* bytes are free and the last one took"):
        store.begin(10)
    assert names(tmp_path) == ["latest", "step-000005"]


def test_a_root_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(CheckpointError, match=r"cannot begin checkpoint 1 in .*checkpoints"):
        CheckpointStore(tmp_path / "checkpoints", keep=1, parts=PARTS).begin(1)


def test_keeping_none_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="keep=0; at least 1"):
        CheckpointStore(tmp_path, keep=0, parts=PARTS)
