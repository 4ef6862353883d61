"""A setting: a dataclass field that carries its meaning, unit, accepted values and usual range.

The checks at load, the warnings about unusual values and the configuration reference in docs/ are all made from these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any

_KEY = "setting"


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known about one setting."""

    meaning: str
    unit: str
    low: float | None  # refused below
    high: float | None  # refused above
    above: float | None  # refused at or below
    choices: tuple[str, ...]  # refused outside, where not empty
    usual: tuple[float, float] | None  # outside: one warning
    outside: str  # what to expect outside the usual range


def setting(  # noqa: PLR0913  one keyword per thing that is worth knowing about a setting
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    usual: tuple[float, float] | None = None,
    outside: str = "",
) -> Any:
    """A dataclass field with its description; a list default is copied for every instance."""
    about = About(
        meaning=meaning, unit=unit, low=low, high=high, above=above, choices=choices, usual=usual, outside=outside
    )
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={_KEY: about})
    return field(default=default, metadata={_KEY: about})


def group(kind: type) -> Any:
    """A dataclass field that holds another group of settings."""
    return field(default_factory=kind)


def about(item: Field[Any]) -> About:
    """The description of a field made by `setting`."""
    described: About = item.metadata[_KEY]
    return described


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, About]]:
    """Every leaf of a config as (dotted key, value, description), in the order of definition."""
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from walk(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value, about(item)


def refused(key: str, value: Any, described: About) -> str | None:
    """Why this value cannot be used, or None."""
    if value is None:
        return None
    if described.choices:
        chosen = value if isinstance(value, list) else [value]
        wrong = [item for item in chosen if item not in described.choices]
        return f"{key}={value}: must be one of {', '.join(described.choices)}" if wrong else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return f"{key}={value}: must be a finite number"
    if described.low is not None and value < described.low:
        return f"{key}={value}: must be at least {described.low:g}"
    if described.above is not None and value <= described.above:
        return f"{key}={value}: must be above {described.above:g}"
    if described.high is not None and value > described.high:
        return f"{key}={value}: must be at most {described.high:g}"
    return None


def unusual(key: str, value: Any, described: About) -> str | None:
    """A warning that tells what to expect from a value outside the usual range, or None."""
    if described.usual is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = described.usual
    if low <= value <= high:
        return None
    return f"{key}={value:g} is outside the usual range {low:g}..{high:g}: {described.outside}"
