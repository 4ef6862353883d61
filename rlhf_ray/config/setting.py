"""A setting: a dataclass field that carries its meaning, unit, accepted values and usual range.

The checks at load, the warnings about unusual values and the configuration reference in docs/ are all made from these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

_KEY = "setting"
_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text", "list": "a list"}


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
    path: bool  # a file or folder; relative ones start where the program was started


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One leaf of a config."""

    key: str  # dotted
    value: Any
    kind: str  # bool, int, float, str, or list (of str)
    optional: bool  # whether null is accepted
    about: About


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
    path: bool = False,
) -> Any:
    """A dataclass field with its description; a list default is copied for every instance."""
    about = About(
        meaning=meaning,
        unit=unit,
        low=low,
        high=high,
        above=above,
        choices=choices,
        usual=usual,
        outside=outside,
        path=path,
    )
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={_KEY: about})
    return field(default=default, metadata={_KEY: about})


def group(kind: type) -> Any:
    """A dataclass field that holds another group of settings."""
    return field(default_factory=kind)


def walk(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Every leaf of a config, in the order of definition."""
    for item in fields(config):
        value = getattr(config, item.name)
        key = f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from walk(value, f"{key}.")
        else:
            kind, optional = _kind(item.type)
            yield Setting(key=key, value=value, kind=kind, optional=optional, about=item.metadata[_KEY])


def accepted(setting: Setting) -> str:
    """What would be accepted, in words."""
    about = setting.about
    if about.choices:
        words = ("a list of " if setting.kind == "list" else "") + ", ".join(about.choices)
    else:
        limits = [
            f"at least {_figure(about.low)}" if about.low is not None else "",
            f"above {_figure(about.above)}" if about.above is not None else "",
            f"at most {_figure(about.high)}" if about.high is not None else "",
        ]
        words = ", ".join(["a path" if about.path else _WORDS[setting.kind], *filter(None, limits)])
    return f"{words}, or null" if setting.optional else words


def _figure(limit: float) -> str:
    """A limit as one would type it: a whole number with all its digits."""
    return str(int(limit)) if float(limit).is_integer() and abs(limit) < 1e15 else f"{limit:g}"


def fits(setting: Setting, value: Any) -> bool:
    """Whether a value is of the setting's kind: nothing is rounded, and no number counts as a truth value."""
    if value is None:
        return setting.optional
    match setting.kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case _:
            return not isinstance(value, list | dict)


def refused(setting: Setting) -> str | None:
    """Why this value cannot be used, or None."""
    value, about = setting.value, setting.about
    if value is None or isinstance(value, bool):
        return None
    if about.choices:
        chosen = value if isinstance(value, list) else [value]
        wrong = any(item not in about.choices for item in chosen)
    elif isinstance(value, int | float):
        wrong = not (
            float("-inf") < value < float("inf")
            and (about.low is None or value >= about.low)
            and (about.above is None or value > about.above)
            and (about.high is None or value <= about.high)
        )
    else:
        wrong = False
    return f"{setting.key}={shown(value)}: accepted is {accepted(setting)}" if wrong else None


def unusual(setting: Setting) -> str | None:
    """A warning that tells what to expect from a value outside the usual range, or None."""
    value, about = setting.value, setting.about
    if about.usual is None or value is None:
        return None
    low, high = about.usual
    if low <= value <= high:
        return None
    return f"{setting.key}={value:g} is outside the usual range {low:g}..{high:g}: {about.outside}"


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return "[" + ",".join(shown(item) for item in value) + "]"
        case _:
            return str(value)


def _kind(annotation: Any) -> tuple[str, bool]:
    """("float", True) for float | None, ("list", False) for list[str]."""
    words = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return words.removesuffix(" | None").split("[")[0], words.endswith(" | None")
