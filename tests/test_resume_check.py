import pytest

from rlhf_ray.checkpoint.store import CheckpointStore
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.resume_check import resume_problems


@pytest.fixture
def config(tmp_path):
    """A run that was ended in PPO, with checkpoints of steps 4 and 8."""
    for stage, steps in (("sft", (100,)), ("ppo", (4, 8))):
        store = CheckpointStore(tmp_path / "checkpoints" / stage, keep=3, parts=())
        for step in steps:
            (store.begin(step) / "weights").write_bytes(b"weights")
            store.commit(step, state={"step": step})
    return TrainConfig(run_dir=str(tmp_path), resume=str(tmp_path))


def test_whole_checkpoints_stand_against_nothing(config):
    assert resume_problems(config) == []


def test_a_run_that_is_new_has_nothing_to_go_on_from(config):
    config.resume = None
    assert resume_problems(config) == []


def test_a_run_that_was_ended_before_its_first_checkpoint_begins_anew(tmp_path):
    assert resume_problems(TrainConfig(run_dir=str(tmp_path), resume=str(tmp_path))) == []


def test_a_damaged_checkpoint_is_told_with_the_whole_ones_and_the_way_to_them(config, tmp_path):
    ppo = tmp_path / "checkpoints" / "ppo"
    (ppo / "step-000008" / "weights").write_bytes(b"Weights")
    (message,) = resume_problems(config)
    assert message.startswith(f"resume={tmp_path}: {ppo}/step-000008 is damaged: weights ")
    assert message.endswith(f"; whole are step-000004: write one of these names into {ppo}/latest to go on from it")
    (ppo / "latest").write_text("step-000004\n")
    assert resume_problems(config) == []


def test_damage_in_a_stage_that_is_over_does_not_matter(config, tmp_path):
    (tmp_path / "checkpoints" / "sft" / "step-000100" / "weights").unlink()
    assert resume_problems(config) == []


def test_where_none_is_whole_it_says_so(config, tmp_path):
    for step in (4, 8):
        (tmp_path / "checkpoints" / "ppo" / f"step-{step:06d}" / "manifest.json").write_text("{")
    (message,) = resume_problems(config)
    assert message.endswith("; there is no whole one")


def test_a_file_in_place_of_the_checkpoints_is_told(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    (message,) = resume_problems(TrainConfig(run_dir=str(tmp_path), resume=str(tmp_path)))
    assert message == f"{tmp_path}/checkpoints is a file; the run's checkpoints belong into a folder of that name"
