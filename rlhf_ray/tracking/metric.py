"""One entry of the metric registry."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """A row of the registry's tables, in the order the tables write it."""

    name: str  # group/thing; <word> stands for any one name
    formula: str
    unit: str
    reduction: str  # how minibatches, ranks or answers are put together
