"""The config of a run that is continued: what it was started with, and the few things that may change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override

from rlhf_ray.config.setting import shown
from rlhf_ray.errors import ConfigError

RUN_FILE = "run.json"
CHANGEABLE = ("placement", "tracking", "checkpoint", "check", "evaluation", "dry_run")
_NOT_COMPARED = ("resume", "hydra")


def resumed_values(folder: Path, *, overrides: Sequence[Override], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The stored values with the changeable ones among the overrides, whose values stand in `asked`.

    Raises ConfigError where there is no run to continue, or where an override contradicts what it was started with.
    """
    run = _read_run(folder)
    values: dict[str, Any] = dict(run["config"]) | {"run_dir": str(folder), "resume": str(folder)}
    command = run.get("command", [])
    conflicts = []
    for override in overrides:
        key = override.key_or_group
        section = key.replace("/", ".").partition(".")[0]
        if section in CHANGEABLE:
            _take(values, asked, key)
        elif section not in _NOT_COMPARED and override.input_line not in command:
            stored, wanted = _select(values, key), _select(asked, key)
            if isinstance(wanted, Mapping):
                conflicts.append(f"{override.input_line}: not among the words that the run was started with")
            elif stored != wanted:
                conflicts.append(f"{override.input_line}: the run was started with {key}={shown(stored)}")
    if conflicts:
        changeable = ", ".join(f"{name}.*" if name != "dry_run" else name for name in CHANGEABLE)
        raise ConfigError(
            "\n".join([f"resume={folder} continues a run as it was started; changeable are {changeable}", *conflicts])
        )
    return values


def _read_run(folder: Path) -> dict[str, Any]:
    """run.json of a run directory."""
    accepted = f"accepted is the directory of an earlier run, with its {RUN_FILE}"
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(f"resume={folder}: {found}; {accepted}")
    file = folder / RUN_FILE
    if not file.is_file():
        raise ConfigError(f"resume={folder}: holds no {RUN_FILE}; {accepted}")
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"resume={folder}: {file} is not JSON: {error}") from error
    if not isinstance(run, dict) or not isinstance(run.get("config"), dict):
        raise ConfigError(f'resume={folder}: {file} has no "config"; {accepted}')
    return run


def _select(tree: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; an empty section for a choice that is no section, such as an experiment."""
    value: Any = tree
    for name in key.split("."):
        value = value.get(name, {})
    return value


def _take(values: dict[str, Any], asked: Mapping[str, Any], key: str) -> None:
    """Copy one value, or one whole section, without touching the tree that `values` was made from."""
    *parents, name = key.split(".")
    for parent in parents:
        values[parent] = dict(values[parent])
        values = values[parent]
        asked = asked[parent]
    values[name] = asked[name]
