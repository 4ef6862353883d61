"""The settings that decide what is learned, flat, for telling runs apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# they say where and how, not what
_PASSING = (
    "run_dir",
    "resume",
    "reuse",
    "dry_run",
    "experiment_name",
    "tracking",
    "placement",
    "checkpoint",
    "check",
)


def effective_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as a plain tree by dotted key, without the passing settings."""
    return dict(_flat({key: value for key, value in config.items() if key not in _PASSING}, prefix=""))


def _flat(tree: Mapping[str, Any], *, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, prefix=f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
