"""JSON files that hold one object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ModelError


def read_json_object(file: Path) -> dict[str, Any]:
    """Raises ModelError for a file that is not JSON or holds something other than an object."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{file} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds a {type(content).__name__}; a JSON object was expected")
    return content
