"""Which of our metrics a column of somebody's log is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from rlhf_ray.doctor.names_table import ALSO_OURS, BY_HAND, FAMILIES, FOREIGN, GENERIC, STEP_NAMES, TRAINERS
from rlhf_ray.doctor.rules import RULES
from rlhf_ray.errors import ConfigError

STAGES = ("sft", "reward_model", "dpo", "ppo")
BY_HAND_ORIGIN = "a name people use"
_PREFIXES = ("train/",)
_NOT_METRICS = ("epoch", "stage", "_timestamp", "_runtime", "timestamp", "wall time", "wall_time", "relative time")


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A column that is read."""

    ours: str
    origin: str


@cache
def our_names() -> frozenset[str]:
    """Every metric that something here reads."""
    needed = {name for rule in RULES.by_name.values() for group in rule.needs for name in group if "*" not in name}
    return frozenset(needed | set(ALSO_OURS))


def stage_of(name: str) -> str:
    """The stage a metric of ours belongs to."""
    group = name.partition("/")[0]
    return group if group in STAGES else "ppo"


def is_ours(name: str) -> bool:
    """Whether something here reads the metric."""
    return name in our_names() or name in FOREIGN or name.startswith(FAMILIES)


def parse_map(pairs: Sequence[str]) -> dict[str, str]:
    """theirs=ours. Raises ConfigError for another shape, and for a metric that no check reads."""
    given = {}
    for pair in pairs:
        theirs, equals, ours = pair.rpartition("=")
        if not equals or not theirs:
            raise ConfigError(f"--map {pair}: accepted is THEIRS=OURS, for instance 'Mean Reward=objective/scores'")
        if not is_ours(ours) and ours != "step":
            raise ConfigError(
                f"--map {pair}: {ours} is read by no check; known are step, {', '.join(sorted(our_names()))}"
            )
        given[theirs] = ours
    return given


def take(columns: Sequence[str], given: Mapping[str, str]) -> dict[str, Taken]:
    """What each column is taken for; those that are missing in the result are not used.

    Of several columns for one metric the best known is taken: --map, our own name, a trainer's table, words by hand.
    Raises ConfigError where --map names a column that is not there.
    """
    absent = [theirs for theirs in given if theirs not in columns]
    if absent:
        raise ConfigError(f"--map {absent[0]}={given[absent[0]]}: no such column; there are {', '.join(columns[:20])}")
    counts = {trainer: _matches(trainer, columns) for trainer in TRAINERS}
    trainers = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    generic = GENERIC[generic_stage(columns)]
    found = [
        (rank, column, taken) for column in columns for rank, taken in _candidates(column, given, trainers, generic)
    ]
    result: dict[str, Taken] = {}
    used: set[str] = set()
    for _rank, column, taken in sorted(found, key=lambda item: item[0]):
        if column not in result and taken.ours not in used:
            result[column] = taken
            used.add(taken.ours)
    return {column: result[column] for column in columns if column in result}


def generic_stage(columns: Sequence[str]) -> str:
    """The stage that "loss" belongs to, by what is logged beside it."""
    names = {_stripped(column) for column in columns}
    if "rewards/chosen" in names:
        return "dpo"
    if {"kl", "reward", "objective/kl", "objective/scores", "actor/pg_loss", "policy_loss"} & names:
        return "ppo"
    if any(re.search(r"\b(kl|policy|reward)\b", words(column)) for column in columns) and "margin" not in names:
        return "ppo"
    if {"margin", "accuracy", "acc", "eval_accuracy", "eval/accuracy"} & names:
        return "reward_model"
    return "sft"


def step_column(columns: Mapping[str, int], given: Mapping[str, str], num_rows: int) -> str | None:
    """The column that counts steps: --map, else the first known name that nearly every row has."""
    mapped = [theirs for theirs, ours in given.items() if ours == "step"]
    if mapped:
        return mapped[0]
    lowered = {column.strip().lower(): column for column in columns}
    known = [lowered[name] for name in STEP_NAMES if name in lowered]
    full = [name for name in known if columns[name] >= 0.9 * num_rows]
    return next(iter(full or known), None)


def words(column: str) -> str:
    """Lower-case words: "KL_Divergence (nats)" is "kl divergence"."""
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)", "", column.lower())))


def is_metric(column: str) -> bool:
    """Whether a column may be one: clocks and counters are not."""
    name = column.strip().lower()
    return name not in _NOT_METRICS and not name.endswith(("__min", "__max")) and name != ""


def _candidates(
    column: str, given: Mapping[str, str], trainers: Sequence[str], generic: Mapping[str, str]
) -> list[tuple[int, Taken]]:
    if column in given:
        return [(0, Taken(ours=given[column], origin="--map"))]
    found: list[tuple[int, Taken]] = []
    plain = _stripped(column)
    for name, rank in ((column, 1), (plain, 2)):
        if is_ours(name) and name not in generic:
            found.append((rank, Taken(ours=name, origin="own name")))
    for rank, trainer in enumerate(trainers, start=3):
        ours = _in_table(trainer, plain)
        if ours is not None:
            found.append((rank, Taken(ours=ours, origin=trainer)))
    if plain in generic:
        found.append((50, Taken(ours=generic[plain], origin="by its stage")))
    by_hand = BY_HAND.get(words(plain)) or BY_HAND.get(words(column.rpartition(" - ")[2]))
    if by_hand is not None:
        found.append((40 if column != column.lower() else 60, Taken(ours=by_hand, origin=BY_HAND_ORIGIN)))
    return found


def _in_table(trainer: str, name: str) -> str | None:
    table = TRAINERS[trainer]
    if name in table:
        return table[name]
    for pattern, ours in table.items():
        if "*" in pattern and fnmatchcase(name, pattern):
            head, _, tail = pattern.partition("*")
            return ours.replace("*", name[len(head) : len(name) - len(tail)].replace("/", "."))
    return None


def _matches(trainer: str, columns: Sequence[str]) -> int:
    """How many columns the table knows; 0 unless one of them is a name that a person would not write."""
    known = [column for column in columns if _in_table(trainer, _stripped(column)) is not None]
    return len(known) if any(words(_stripped(column)) not in BY_HAND for column in known) else 0


def _stripped(column: str) -> str:
    name = column.rpartition(" - ")[2].strip()  # exports name the run before the metric
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
