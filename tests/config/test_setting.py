import pytest

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import accepted, fits, refused, walk

SETTINGS = {setting.key: setting for setting in walk(TrainConfig())}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_every_default_is_accepted_and_described(setting):
    assert fits(setting, setting.value)
    assert refused(setting) is None
    assert setting.about.meaning


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_a_usual_range_lies_within_what_is_accepted_and_tells_the_effect(setting):
    about = setting.about
    if about.usual is None:
        assert about.outside == ""
        return
    low, high = about.usual
    assert low < high
    assert about.outside
    assert about.low is None or about.low <= low
    assert about.high is None or high <= about.high


@pytest.mark.parametrize(
    ("key", "usual"),
    [
        ("learning_rate", (1e-6, 1e-4)),
        ("algorithm.kl_coef", (0.01, 0.1)),
        ("algorithm.clip", (0.1, 0.3)),
        ("algorithm.batch_size", (64, 512)),
    ],
)
def test_the_usual_ranges_of_large_models_are_stated(key, usual):
    assert SETTINGS[key].about.usual == usual


def test_accepted_values_are_told_in_words():
    assert accepted(SETTINGS["seed"]) == "a whole number, at least 0, at most 4294967295"
    assert accepted(SETTINGS["algorithm.clip"]) == "a number, above 0, at most 0.99"
    assert accepted(SETTINGS["algorithm.value_clip"]) == "a number, above 0, or null"
    assert accepted(SETTINGS["model.path"]) == "a path, or null"
    assert accepted(SETTINGS["algorithm.reference"]) == "true or false"
    assert accepted(SETTINGS["stages"]) == "a list of sft, reward_model, ppo"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", 3, True),
        ("seed", 3.0, False),
        ("seed", True, False),
        ("seed", "3", False),
        ("algorithm.clip", 1, True),
        ("algorithm.clip", True, False),
        ("algorithm.reference", 1, False),
        ("algorithm.reference", True, True),
        ("model.path", None, True),
        ("model.path", ["a"], False),
        ("seed", None, False),
        ("stages", ["sft"], True),
        ("stages", [1], False),
        ("stages", "sft", False),
    ],
)
def test_values_are_taken_as_they_are_or_not_at_all(key, value, expected):
    assert fits(SETTINGS[key], value) is expected


def test_the_kinds_of_findings_that_a_policy_can_be_set_for_are_those_the_doctor_has():
    from rlhf_ray.config.doctor import IN_PPO, KINDS, TREATABLE
    from rlhf_ray.doctor.actions import KINDS as FOUND
    from rlhf_ray.doctor.actions import LOWERS_RATE, RAISES_BETA
    from rlhf_ray.doctor.rules import RULES

    assert set(KINDS) == set(FOUND)
    assert set(IN_PPO) == {rule.kind for rule in RULES.by_name.values() if rule.stage in ("ppo", "any")}
    assert set(TREATABLE) == {*RAISES_BETA, *LOWERS_RATE}
