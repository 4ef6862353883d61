import pytest

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import walk
from rlhf_ray.config.spelling import hint, nearest

KEYS = [setting.key for setting in walk(TrainConfig())]


@pytest.mark.parametrize("key", KEYS)
def test_a_doubled_letter_still_finds_the_key(key):
    assert nearest(key + key[-1], KEYS)[0] == key


def test_the_last_part_finds_the_key_whatever_section_was_written():
    assert nearest("ppo.num_iterations", KEYS) == ("algorithm.num_iterations",)


def test_keys_of_the_same_name_are_all_offered():
    assert hint("learningrate", KEYS) == (
        "; did you mean learning_rate or sft.learning_rate or algorithm.learning_rate?"
    )


def test_nothing_is_offered_for_a_word_like_none():
    assert hint("zzz", KEYS) == ""
    assert hint("x", []) == ""
