"""What the page needs of a run's records: what is shaped otherwise is left out and told, whoever changed it."""

from __future__ import annotations

import math
from typing import Any

ANY = "*"  # in a mapping: every name that is not given
_TEXT = str
_NUMBER = (int, float)
_NUMBER_OR_NULL = (int, float, type(None))
_TEXT_OR_NULL = (str, type(None))
_NUMBERS = {ANY: _NUMBER_OR_NULL}

SUMMARY = {"before": _NUMBERS, "after": _NUMBERS, "reward_model": _NUMBERS, "seconds": {ANY: _NUMBER}}
LINEAGE = {
    "made": [{"name": _TEXT, "digest": _TEXT, "parents": [{"name": _TEXT, "digest": _TEXT}]}],
    "used": [{"name": _TEXT, "digest": _TEXT}],
}
RUN = {
    "command": [_TEXT],
    "versions": {ANY: object},
    "config": {ANY: object},
    "git": {"commit": _TEXT},
    "platform": {ANY: object},
}
FINDING = {
    "kind": _TEXT,
    "form": _TEXT,
    "stage": _TEXT,
    "severity": _TEXT,
    "first_step": _NUMBER,
    "until": _NUMBER_OR_NULL,
    "onsets": {ANY: _NUMBER},
    "phrase": _TEXT,
    "summary": _TEXT,
    "evidence": [{"metric": _TEXT, ANY: _NUMBER_OR_NULL}],
    "causes": [_TEXT],
    "changes": [{"text": _TEXT, "risk": _TEXT, "setting": _TEXT_OR_NULL, ANY: _NUMBER_OR_NULL}],
    "watch_next": [_TEXT],
    "rule": _TEXT,
}
ACTION = {"step": _NUMBER, "stage": _TEXT, "policy": _TEXT, "reason": _TEXT}


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape: a type or several, a list of one shape, a mapping.

    What a mapping has not, it need not have; for a list or a mapping, null is nothing.
    """
    match shape:
        case list():
            return value is None or (isinstance(value, list) and all(fits(item, shape[0]) for item in value))
        case dict():
            return value is None or (
                isinstance(value, dict)
                and all(fits(item, shape.get(name, shape.get(ANY, object))) for name, item in value.items())
            )
        case _:
            return isinstance(value, shape) and not (isinstance(value, float) and not math.isfinite(value))
