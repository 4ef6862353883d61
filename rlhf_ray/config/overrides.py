"""What is wrong with the KEY=VALUE words of a command line, told word by word before anything is composed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.conf import HydraConf
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from rlhf_ray.config.setting import Setting, accepted, fits, shown
from rlhf_ray.config.spelling import hint

# what this program takes from Hydra's own settings while it runs the jobs itself
USED_HYDRA_KEYS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.searchpath")
JOB_RUNNERS = ("hydra/launcher", "hydra/sweeper")
_OPEN_HYDRA_GROUPS = ("launcher", "sweeper", "callbacks", "job_logging", "hydra_logging", "help", "env")
_MISSING = "???"


def parse_overrides(words: Sequence[str]) -> tuple[list[Override], list[str]]:
    """The words that are overrides, and what is wrong with the others."""
    parser, parsed, wrong = OverridesParser.create(), [], []
    for word in words:
        try:
            parsed.append(parser.parse_override(word))
        except HydraException as error:
            key, _, value = word.partition("=")
            reason = str(error).splitlines()[0]
            quoted = f"; a value with special characters needs quotes of its own: \"{key}='{value}'\"" if value else ""
            wrong.append(f"{word}: not readable as KEY=VALUE ({reason}){quoted}")
    return parsed, wrong


def override_problems(
    overrides: Sequence[Override],
    *,
    settings: Mapping[str, Setting],
    groups: Mapping[str, tuple[str, ...]],
    hydra_runs_jobs: bool,
) -> list[str]:
    """One line per override that names nothing, or gives a value that can never be used."""
    found: list[str] = []
    for override in overrides:
        key, written = override.key_or_group, str(override.input_line)
        known = key in settings or key in groups
        if key.startswith(("hydra.", "hydra/")):
            found += _hydra_problems(key, written, hydra_runs_jobs=hydra_runs_jobs)
        elif override.is_add() or override.is_delete() or override.package is not None:
            remedy = "write KEY=VALUE" if known else f"no such setting{hint(key, [*settings, *groups])}"
            found.append(f"{written}: settings can be changed, not added, removed or moved; {remedy}")
        elif not override.is_sweep_override():
            found += value_problems(key, override.value(), settings=settings, groups=groups)
        elif not hydra_runs_jobs:
            found.append(f"{written}: several values make several jobs; add -m to run them")
        elif not known:
            found.append(f"{written}: no such setting{hint(key, [*settings, *groups])}")
    return found


def value_problems(
    key: str, value: Any, *, settings: Mapping[str, Setting], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """What is wrong with one value of any kind: a setting's, a choice, or a mapping of further values."""
    written = f"{key}={shown(value)}"
    is_section = any(name.startswith(f"{key}.") for name in settings)
    if key in settings:
        setting = settings[key]
        if value == _MISSING:
            yield f"{key} is missing: accepted is {accepted(setting)}"
        elif not fits(setting, value) and not _is_interpolation(value):
            yield f"{written}: accepted is {accepted(setting)}"
    elif isinstance(value, dict) and is_section:
        for name, inner in value.items():
            yield from value_problems(f"{key}.{name}", inner, settings=settings, groups=groups)
    elif key in groups:
        if value not in groups[key] and not _is_interpolation(value):
            yield f"{written}: accepted is one of {', '.join(groups[key])}{hint(str(value), groups[key])}"
    elif is_section:
        yield f"{written}: a section; set one of its keys, such as {next(n for n in settings if n.startswith(key))}"
    else:
        yield f"{written}: no such setting{hint(key, [*settings, *groups])}"


def _hydra_problems(key: str, written: str, *, hydra_runs_jobs: bool) -> Iterator[str]:
    """Misspelled, or without effect where this program runs the jobs."""
    known = [*_hydra_keys(), *JOB_RUNNERS]
    is_open = key.startswith(tuple(f"hydra.{name}." for name in _OPEN_HYDRA_GROUPS))
    if key not in known and not is_open:
        yield f"{written}: no such setting of Hydra{hint(key, known)}"
    elif not hydra_runs_jobs and key not in USED_HYDRA_KEYS:
        yield (
            f"{written}: has no effect here; used are {', '.join(USED_HYDRA_KEYS)}, "
            f"and all others with -m and {' or '.join(JOB_RUNNERS)}"
        )


def _hydra_keys() -> list[str]:
    def leaves(tree: Mapping[Any, Any], prefix: str) -> Iterator[str]:
        for name, value in tree.items():
            if isinstance(value, dict) and value:
                yield from leaves(value, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}"

    tree = OmegaConf.to_container(OmegaConf.structured(HydraConf), resolve=False, throw_on_missing=False)
    assert isinstance(tree, dict), "Hydra's own schema is a mapping"
    return list(leaves(tree, "hydra."))


def _is_interpolation(value: Any) -> bool:
    return isinstance(value, str) and "${" in value
