"""A short name for exactly these settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlhf_ray.config.schema import TrainConfig

DOES_NOT_MATTER = ("run_dir", "resume", "experiment_name", "reuse")
_NOT_THE_JOB = (*DOES_NOT_MATTER, "dry_run", "tracking")


def config_digest(config: TrainConfig) -> str:
    """blake2b over the settings that can change a result's content, in a canonical order."""
    return _digest({key: value for key, value in asdict(config).items() if key not in DOES_NOT_MATTER})


def job_digest(settings: Mapping[str, Any]) -> str:
    """The same for a config as a plain tree: equal where two jobs would do the same, wherever they write it."""
    return _digest({key: value for key, value in settings.items() if key not in _NOT_THE_JOB})


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
