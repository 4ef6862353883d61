"""The nearest names to a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_CUTOFF = 0.6
_MAX_OFFERED = 3
_CLOSE = 0.1  # how far behind the best match another one may be


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known dotted names that are most like `name`, best first; compared as a whole and by their last part."""
    scored = sorted(((_likeness(name, other), other) for other in known), key=lambda pair: (-pair[0], pair[1]))
    best = scored[0][0] if scored else 0.0
    return tuple(other for score, other in scored[:_MAX_OFFERED] if score >= max(_CUTOFF, best - _CLOSE))


def hint(name: str, known: Iterable[str]) -> str:
    """A half sentence to end a message with, or nothing."""
    found = nearest(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _likeness(name: str, other: str) -> float:
    whole = SequenceMatcher(None, name, other).ratio()
    last, other_last = name.rpartition(".")[2], other.rpartition(".")[2]
    # the last part says what is meant; a prefix of it (max_new for max_new_tokens) counts
    part = SequenceMatcher(None, last, other_last).ratio()
    if other_last.startswith(last) and len(last) > 2:
        part = max(part, 0.9)
    return max(whole, 0.9 * part + 0.1 * whole)
