"""How fast an iteration was."""

from __future__ import annotations

from rlhf_ray.types import Last, Mean, Stats, Sum


def rates(stats: Stats, *, step: int, episodes: int) -> Stats:
    """Timings with what follows from them: answers and tokens per second, the share of time spent on orchestration.

    `stats` holds response/length_mean and the time/ metrics of the iteration that ended as number `step`.
    """
    lengths, wall_s = stats["response/length_mean"], stats["time/iteration"].value
    assert isinstance(lengths, Mean)
    assert wall_s is not None
    timings = {name: stat for name, stat in stats.items() if name.startswith("time/")}
    orchestration_s, generate_s = stats["time/orchestration"].value, stats["time/generate"].value
    assert orchestration_s is not None
    return {
        **timings,
        "time/orchestration_share": Last(orchestration_s / wall_s if wall_s else None),
        "throughput/samples_per_second": Last(episodes / wall_s if wall_s else None),
        "throughput/tokens_per_second": Last(lengths.total / wall_s if wall_s else None),
        "throughput/generate_tokens_per_second": Last(lengths.total / generate_s if generate_s else None),
        "rollout/num_tokens": Sum(lengths.total),
        "episode": Sum(step * episodes),
        "eps": Last(episodes / wall_s if wall_s else None),
    }
