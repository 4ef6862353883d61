"""From stats that still add up to the numbers that are recorded."""

from __future__ import annotations

from rlhf_ray.types import Histogram, Stats


def reduce_stats(stats: Stats) -> dict[str, float | None]:
    """Each number's value; None where nothing was counted or the value is undefined."""
    numbers = {name: stat.value for name, stat in stats.items() if not isinstance(stat, Histogram)}
    return {name: None if value is None else float(value) for name, value in numbers.items()}


def distributions(stats: Stats) -> dict[str, Histogram]:
    """Those that are no single number."""
    return {name: stat for name, stat in stats.items() if isinstance(stat, Histogram)}
