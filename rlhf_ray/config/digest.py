"""A short name for exactly these settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from rlhf_ray.config.schema import TrainConfig

DOES_NOT_MATTER = ("run_dir", "resume", "experiment_name")


def config_digest(config: TrainConfig) -> str:
    """blake2b over the settings that can change a result's content, in a canonical order."""
    content = {key: value for key, value in asdict(config).items() if key not in DOES_NOT_MATTER}
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
