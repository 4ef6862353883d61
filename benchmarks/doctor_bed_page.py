"""docs/doctor-bed.md from the results of the test bed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sick_runs import CASES, TREATED, Case

Result = Mapping[str, Any]
SETTING_SEEDS = range(1, 6)  # the thresholds were set on these
SERIOUS = ("warning", "critical")
LATEST = 5  # iterations after the onset
POLICIES = ("warn", "adapt", "rollback")

_HEAD = """# The doctor's test bed

Small runs with one illness each, and healthy ones: does the doctor find it, how soon, and does it stay quiet otherwise?
The rules are in [doctor.md](doctor.md). Made by

    make doctor-bed

or case by case by `python benchmarks/doctor_bed.py --case NAME --seeds 1-5`. PPO stage only: 64 answers an iteration
from one SFT policy and one reward model, in one process with the Hugging Face generator; what differs from the
default job is in the table. Settings are those of 30 iterations (40 for `weak_100`); of most sick runs beyond seed 5
the first 18 were made, by when all is seen. Held-out prompts (96) are answered every 2 iterations. What is told here
is what a watched run is told, at the iteration given; `--page` judges the recorded metrics again with the rules as
they are.

- **onset**: from when on the run is sick, by a measure that is not the doctor's rule.
- **found**: the first finding of severity `warning` or `critical` of a kind that names the illness.
- **delay**: iterations from onset to that (steps, for a reward model); negative: told before. The aim is at most 5.
- Thresholds were set on seeds 1-5; other seeds test them. One exception: that of the explained variance was lowered
  after three later seeds had told the dead critic 6 iterations after its onset, so `critic_rate_0` tests nothing.
"""


def write_page(results: Sequence[Result], path: Path) -> None:
    """The newest result of each case, policy and seed."""
    newest = {(result["case"], result["policy"], result["seed"]): result for result in results}
    lines = [_HEAD, *_found(newest), *_healthy(newest), *_treated(newest), *_not_run(newest), *_every_run(newest)]
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _found(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    yield "## Sick runs\n"
    yield "In time: of the runs that fell ill, those in which it was told at most 5 iterations after the onset.\n"
    yield "| case | what is wrong | onset is | set on: in time | delays | tested on: in time | delays |"
    yield "|---|---|---|---|---|---|---|"
    for name, case in CASES.items():
        if case.finds:
            cells = [_in_time(case, list(_runs(newest, name, setting=setting).values())) for setting in (True, False)]
            yield f"| `{name}` | {case.about} | {case.onset_words} | {' | '.join(cells)} |"
    yield ""


def _in_time(case: Case, results: Sequence[Result]) -> str:
    """In how many of the sick runs the illness was found soon enough, and all delays, sorted."""
    delays = [_delay(case, result) for result in results if result["onset"] is not None]
    known = sorted(delay for delay in delays if delay is not None)
    words = [f"{delay:+g}" for delay in known] + ["never"] * (len(delays) - len(known))
    return f"{sum(delay <= LATEST for delay in known)} of {len(delays)} | {', '.join(words) or '-'}"


def _runs(newest: Mapping[tuple[str, str, int], Result], name: str, *, setting: bool) -> dict[int, Result]:
    """The untreated runs of a case by seed: those the thresholds were set on, or the others."""
    return {
        seed: result
        for (known, policy, seed), result in sorted(newest.items())
        if (known, policy) == (name, "warn") and (seed in SETTING_SEEDS) == setting
    }


def _first(case: Case, result: Result) -> Mapping[str, Any] | None:
    """The first serious finding that names the illness."""
    return next((told for told in result["told"] if told["severity"] in SERIOUS and _kind(told) in case.finds), None)


def _delay(case: Case, result: Result) -> float | None:
    first = _first(case, result)
    return None if first is None or result["onset"] is None else first["step"] - result["onset"]


def _every_run(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    yield "\n## Every sick run\n"
    yield "| case | seed | onset | found at | delay | first finding of the illness |"
    yield "|---|---|---|---|---|---|"
    for name, case in CASES.items():
        if case.finds:
            for setting in (True, False):
                for seed, result in _runs(newest, name, setting=setting).items():
                    yield f"| `{name}` | {seed} | {_illness(case, result)} |"


def _illness(case: Case, result: Result) -> str:
    onset, first, delay = result["onset"], _first(case, result), _delay(case, result)
    cells = [
        "not reached" if onset is None else f"{onset:g}",
        "-" if first is None else f"{first['step']}",
        "-" if delay is None else f"{delay:+g}",
        f"{first['rule']} ({first['severity']})" if first else "nothing" if onset is None else "**not found**",
    ]
    return " | ".join(cells)


def _healthy(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    rows = [result for (name, policy, _seed), result in sorted(newest.items()) if (name, policy) == ("healthy", "warn")]
    if not rows:
        return
    yield "## Healthy runs\n"
    yield "| seed | critical | warning | to watch | gold at the end | KL at the end |"
    yield "|---|---|---|---|---|---|"
    for result in rows:
        told = {level: [item for item in result["told"] if item["severity"] == level] for level in (*SERIOUS, "watch")}
        words = [", ".join(f"{item['rule']} ({item['step']})" for item in told[level]) or "none" for level in told]
        critical, warning, watch = words
        end = f"{result['gold_end']:.2f} | {result['kl_end']:.1f}"
        yield f"| {result['seed']} | {critical} | {warning} | {watch} | {end} |"
    alarms = sum(any(item["severity"] == "critical" for item in result["told"]) for result in rows)
    yield f"\nCritical false alarms: {alarms} of {len(rows)} runs.\n"


def _treated(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    yield "## What treatment does\n"
    yield "Mean gold score at the end, over the seeds that were run with each policy.\n"
    yield "| case | seeds | " + " | ".join(POLICIES) + " |"
    yield "|---|---|---|---|---|"
    for name in TREATED:
        by_policy = {
            policy: {seed: r["gold_end"] for (n, p, seed), r in newest.items() if (n, p) == (name, policy)}
            for policy in POLICIES
        }
        seeds = sorted(set.intersection(*map(set, by_policy.values())))
        if seeds:
            means = [f"{statistics.mean(golds[seed] for seed in seeds):.2f}" for golds in by_policy.values()]
            yield f"| `{name}` | {', '.join(map(str, seeds))} | " + " | ".join(means) + " |"
    yield ""


def _not_run(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    seeds = {name: [seed for known, policy, seed in newest if (known, policy) == (name, "warn")] for name in CASES}
    missing = [f"`{name}`" for name, known in seeds.items() if not known]
    tested = sum(seed not in SETTING_SEEDS for known in seeds.values() for seed in known)
    yield "## What was run\n"
    yield f"{sum(map(len, seeds.values()))} runs without treatment, {tested} of them on seeds beyond 5."
    if missing:
        yield f"\nNot run: {', '.join(missing)}."


def _kind(told: Mapping[str, Any]) -> str:
    return str(told["rule"]).partition(".")[0]
