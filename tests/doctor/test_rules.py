"""The rules table, its overrides, and the advice that hangs on it."""

import json
from pathlib import Path

import pytest
from doctor_cases import Made, found
from doctor_made_policy import MADE_POLICY
from doctor_made_reward import MADE_REWARD

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import walk
from rlhf_ray.doctor.advice import advice_for, allowed, change_of
from rlhf_ray.doctor.advice_changes import CHANGES, STAGE_CHANGES
from rlhf_ray.doctor.advice_table import ADVICE
from rlhf_ray.doctor.findings import Change, Severity
from rlhf_ray.doctor.names_table import SETTINGS
from rlhf_ray.doctor.rules import RULES, load_rules
from rlhf_ray.errors import ConfigError
from rlhf_ray.tracking.registry import check_names

KEYS = {setting.key for setting in walk(TrainConfig())}
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


def change(name: str, severity: Severity = WARNING, **settings: float) -> Change:
    found = change_of(name, {key.replace("__", "."): value for key, value in settings.items()}, severity=severity)
    assert found is not None
    return found


def test_advice_names_only_settings_that_exist() -> None:
    assert {setting for setting, *_ in CHANGES.values() if setting is not None} <= KEYS
    assert set(SETTINGS.values()) <= KEYS


def test_every_rule_has_advice_with_changes_that_exist() -> None:
    for name in RULES.by_name:
        advice = advice_for(name)
        assert advice.causes
        assert advice.watch
        assert set(advice.changes) <= set(CHANGES)
    assert {name.partition(".")[0] for name in ADVICE} == {rule.kind for rule in RULES.by_name.values()}
    advised = {name for *_, changes, _ in ADVICE.values() for name in changes}
    elsewhere = {own for changes in STAGE_CHANGES.values() for own in changes.values()}
    assert advised | elsewhere == set(CHANGES)


def test_metrics_to_watch_are_registered() -> None:
    check_names({name for *_, watch in ADVICE.values() for name in watch})


def test_every_change_states_its_risk() -> None:
    assert all(risk for *_, risk in CHANGES.values())


def test_numbers_come_from_the_runs_own_settings() -> None:
    beta = change("beta_up", algorithm__kl_coef=0.05)
    assert (beta.now, beta.to) == (0.05, 0.1)
    assert beta.text.startswith("raise algorithm.kl_coef from 0.05 to about 0.1: ")
    assert change("lr_down", algorithm__learning_rate=3e-6).to == 1.5e-6
    assert change("lr_down", CRITICAL, algorithm__learning_rate=8e-3).to == 2e-3


def test_a_setting_at_zero_gets_a_start() -> None:
    assert change("beta_up", algorithm__kl_coef=0.0).text.startswith("raise algorithm.kl_coef from 0 to about 0.05: ")


def test_an_unknown_setting_gets_a_factor() -> None:
    unknown = change("beta_up")
    assert (unknown.now, unknown.to) == (None, None)
    assert "to about twice its value (to 0.05 where it is 0)" in unknown.text


def test_advice_that_is_followed_already_is_left_out() -> None:
    assert change_of("stop_passes", {"algorithm.target_approx_kl": 0.02}, severity=WARNING) is None
    assert change_of("epochs_down", {"algorithm.epochs": 1.0}, severity=WARNING) is None


def test_advice_stays_within_what_a_setting_accepts() -> None:
    assert allowed("algorithm.epochs", 0.5) == 1
    assert allowed("algorithm.epochs", 2.4) == 2
    assert allowed("algorithm.kl_coef", -1.0) == 0
    assert allowed("algorithm.kl_coef", 0.1234) == 0.12
    assert allowed("algorithm.batch_size", 128) == 128  # what minibatches divide is not rounded to what they do not


def test_a_users_numbers_replace_the_tables(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("runaway_kl.level: {warning: 5, critical: 8}\n")
    rules = load_rules(tmp_path / "mine.yaml")
    assert (rules["runaway_kl.level"]["warning"], rules["runaway_kl.level"]["watch"]) == (5, 10)
    assert RULES["runaway_kl.level"]["warning"] == 25
    (tmp_path / "mine.json").write_text('{"runaway_kl.level": {"warning": 6}}')
    assert load_rules(tmp_path / "mine.json")["runaway_kl.level"]["warning"] == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runaway_kl.levle: {warning: 5}", "unknown rule: runaway_kl.levle; did you mean runaway_kl.level"),
        ("runaway_kl.level: {warnign: 5}", "unknown number of runaway_kl.level: warnign; did you mean warning"),
        ("runaway_kl.level: {warning: high}", "runaway_kl.level.warning='high': accepted is a number"),
        ("runaway_kl.level: {warning: .nan}", "runaway_kl.level.warning=nan: accepted is a number"),
        ("runaway_kl.level: {persistence: 0}", "persistence=0: accepted is a whole number from 1 to 1000000"),
        ("value_failure.loss_rise: {window: 2.5}", "window=2.5: accepted is a whole number from 3 to 1000000"),
        ("[" * 5000, "cannot be read as rules"),
        ("runaway_kl.level: 5", "rules are written as"),
        ("- 5", "rules are written as"),
        ("a: [", "cannot be read as rules"),
    ],
)
def test_a_rules_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_rules(tmp_path / "mine.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize("made", [*MADE_POLICY, *MADE_REWARD], ids=lambda made: made.rule)
def test_any_numbers_that_are_accepted_can_be_checked_with(made: Made, tmp_path: Path) -> None:
    for value in (-1e18, -1, 0, 0.5, 3, 1_000_000, 1e18):
        for number in RULES[made.rule].numbers:
            (tmp_path / "mine.json").write_text(json.dumps({made.rule: {number: value}}))
            try:
                rules = load_rules(tmp_path / "mine.json")
            except ConfigError:
                continue
            assert isinstance(found(made.sick, made.rule, rules=rules, **made.facts), list)


def test_a_changed_rule_changes_what_is_found() -> None:
    kl = {"objective/kl": [0, 2, 6, 7, 7, 7, 7, 7]}
    assert found(kl, "runaway_kl.level") == []
    rules = RULES.changed({"runaway_kl.level": {"warning": 5.0}})
    (finding,) = found(kl, "runaway_kl.level", rules=rules)
    assert finding.severity == WARNING
