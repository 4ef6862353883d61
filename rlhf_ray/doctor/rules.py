"""The rules: what is looked at, from where on it counts, and where the number comes from. It makes docs/doctor.md.

A rule's name is kind.form. All its numbers can be changed by a file given with --rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from rlhf_ray.doctor.rules_policy import POLICY_RULES
from rlhf_ray.doctor.rules_reward import REWARD_RULES
from rlhf_ray.doctor.rules_run import RUN_RULES
from rlhf_ray.errors import ConfigError

__all__ = ["RULES", "Rules", "load_rules", "rules_in_force"]
# numbers of a rule that count points, steps or pairs
_LEAST = {
    "persistence": 1,
    "critical_persistence": 1,
    "baseline": 1,
    "evaluations": 1,
    "points": 1,
    "window": 3,
    "warm_up": 0,
    "pairs": 0,
}
_MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row of the table."""

    name: str  # kind.form
    stage: str  # ppo, sft, reward_model, or any
    needs: tuple[tuple[str, ...], ...]  # of each group, one metric must be logged
    meaning: str
    numbers: Mapping[str, float]
    source: str

    @property
    def kind(self) -> str:
        """What policies and reports group by."""
        return self.name.partition(".")[0]

    def __getitem__(self, number: str) -> float:
        return self.numbers[number]

    def of_one_step(self) -> Rule:
        """For a log of one step, which nothing can outlast: one point is enough."""
        return replace(self, numbers={n: 1 if n.endswith("persistence") else own for n, own in self.numbers.items()})


@dataclass(frozen=True, kw_only=True)
class Rules:
    """All rules by name."""

    by_name: Mapping[str, Rule]

    def __getitem__(self, name: str) -> Rule:
        return self.by_name[name]

    def changed(self, numbers: Mapping[str, Mapping[str, float]]) -> Rules:
        """With other numbers. Raises ConfigError for a rule or number that is not in the table."""
        rules = dict(self.by_name)
        for name, own in numbers.items():
            rule = rules[_known(name, rules, "rule")]
            for number in own:
                _known(number, rule.numbers, f"number of {name}")
            rules[name] = replace(rule, numbers={**rule.numbers, **own})
        return Rules(by_name=rules)


RULES = Rules(
    by_name={
        name: Rule(name=name, stage=stage, needs=needs, meaning=meaning, numbers=numbers, source=source)
        for name, stage, needs, meaning, numbers, source in (*POLICY_RULES, *REWARD_RULES, *RUN_RULES)
    }
)


def load_rules(path: Path) -> Rules:
    """The table with a user's own numbers: a YAML or JSON file {rule name: {number: value}}.

    Raises ConfigError for a file that cannot be read, an unknown rule or number, and what is not a number.
    """
    try:
        text = path.read_text(encoding="utf-8")
        given = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as rules ({error})") from error
    return RULES.changed(_checked(given, path))


def rules_in_force(given: Rules | None, own: Path | None) -> tuple[Rules, tuple[str, ...]]:
    """Those `given` with --rules, else those of the file that a run itself used, else the table; and a note on it.

    Raises ConfigError for a file of the run that is no longer what the run read.
    """
    if given is not None or own is None:
        return given or RULES, ()
    if not own.exists():
        return RULES, (f"rules: the built-in ones, as {own}, which the run used, is not there any more",)
    return load_rules(own), (f"rules: those of {own}, which the run used (others: --rules FILE)",)


def _checked(given: Any, path: Path) -> dict[str, dict[str, float]]:
    shape = (
        f"{path}: rules are written as {{rule name: {{number: value}}}}, for instance runaway_kl.level: {{watch: 8}}"
    )
    if not isinstance(given, dict):
        raise ConfigError(shape)
    for name, numbers in given.items():
        if not isinstance(name, str) or not isinstance(numbers, dict):
            raise ConfigError(shape)
        for number, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
                raise ConfigError(f"{path}: {name}.{number}={value!r}: accepted is a number")
            least = _LEAST.get(str(number))
            if least is not None and not (least <= value <= _MOST and value == int(value)):
                raise ConfigError(
                    f"{path}: {name}.{number}={value!r}: accepted is a whole number from {least} to {_MOST}"
                )
    return given


def _known(name: str, known: Mapping[str, Any], what: str) -> str:
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
        raise ConfigError(f"unknown {what}: {name}{hint}")
    return name
