"""What may be shown to others."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "(hidden)"
_SECRET_KEY = re.compile(r"(^|_)(token|secret|password|passwd|api_?key|credentials?)$", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+@")


def without_secrets(value: Any, *, key: str = "") -> Any:
    """A tree of settings with passwords, keys and the user part of URLs hidden."""
    if _SECRET_KEY.search(key) and value is not None:
        return HIDDEN
    match value:
        case dict():
            return {name: without_secrets(inner, key=str(name)) for name, inner in value.items()}
        case list() | tuple():
            return [without_secrets(inner) for inner in value]
        case str():
            return _USER_OF_URL.sub(f"{HIDDEN}@", value)
        case _:
            return value
