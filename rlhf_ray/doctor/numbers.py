"""What a cell says."""

from __future__ import annotations

import math
import re

MISSING = ("", "-", "--", "null", "none", "n/a", "na", "?")
_NONFINITE = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_WITH_WORDS = re.compile(
    r"([+-]?[\d.]+(?:e[+-]?\d+)?)\s*(?:(?:/|of|out of)\s*[\d.]+)?\s*(?:\([^()]*\)|nats|%)?", re.IGNORECASE
)


def number_of(cell: object) -> float | None:
    """The number in a cell, NaN and infinities included; None where there is none.

    Also read: 1,234.5; 12%; yes and no; 7.5/10 and 7.5 of 10 (as 7.5); 0.8 (high).
    """
    if isinstance(cell, bool | int | float):
        return _as_float(cell)
    if not isinstance(cell, str):
        return None
    try:
        return float(cell)
    except ValueError:
        return _from_words(cell.strip())


def is_missing(cell: object) -> bool:
    """Whether a cell says that nothing was logged."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def _as_float(number: float) -> float | None:
    try:
        return float(number)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if number > 0 else -math.inf


def _from_words(text: str) -> float | None:
    lowered = text.lower()
    if lowered.lstrip("+-") in _NONFINITE:
        return _NONFINITE[lowered.lstrip("+-")] * (-1 if lowered.startswith("-") else 1)
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    found = _WITH_WORDS.fullmatch(text)
    if found is None:
        return None
    try:
        return float(found.group(1)) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return None
