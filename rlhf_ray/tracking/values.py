"""From stats that still add up to the numbers that are recorded."""

from __future__ import annotations

from rlhf_ray.types import Stats


def reduce_stats(stats: Stats) -> dict[str, float | None]:
    """Each stat's value; None where nothing was counted or the value is undefined."""
    return {name: None if stat.value is None else float(stat.value) for name, stat in stats.items()}
