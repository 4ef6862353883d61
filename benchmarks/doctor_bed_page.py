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
POLICIES = ("warn", "adapt", "rollback")

_HEAD = """# The doctor's test bed

Small runs with one illness each, and healthy ones: does the doctor find it, how soon, and does it stay quiet otherwise?
The rules are in [doctor.md](doctor.md). Made by

    make doctor-bed

or case by case by `python benchmarks/doctor_bed.py --case NAME --seeds 1-5`. PPO stage only: 30 iterations of 64
answers from one SFT policy and one reward model, in one process with the Hugging Face generator; what differs from the
default job is in the table. Held-out prompts (96) are answered every 2 iterations. What is told here is what a
watched run is told, at the iteration given; `--page` judges the recorded metrics again with the rules as they are.

- **onset**: from when on the run is sick, by a measure that is not the doctor's rule (column "onset is").
- **found**: the first finding of severity `warning` or `critical` of a kind that names the illness.
- **delay**: iterations from onset to that; negative: told before. The aim is at most 5.
- Thresholds were set on seeds 1-5; other seeds test them.
"""


def write_page(results: Sequence[Result], path: Path) -> None:
    """The newest result of each case, policy and seed."""
    newest = {(result["case"], result["policy"], result["seed"]): result for result in results}
    lines = [_HEAD, *_found(newest), *_healthy(newest), *_treated(newest), *_not_run(newest)]
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _found(newest: Mapping[tuple[str, str, int], Result]) -> Iterator[str]:
    yield "## Sick runs\n"
    yield "| case | what is wrong | onset is | seed | onset | found at | delay | first finding of the illness |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, case in CASES.items():
        for (known, policy, seed), result in sorted(newest.items()):
            if known == name and policy == "warn" and case.finds:
                yield f"| `{name}` | {case.about} | {case.onset_words} | {seed} | {_illness(case, result)} |"
    yield ""


def _illness(case: Case, result: Result) -> str:
    onset = result["onset"]
    found = [told for told in result["told"] if told["severity"] in SERIOUS and _kind(told) in case.finds]
    first = found[0] if found else None
    cells = [
        "not reached" if onset is None else f"{onset:g}",
        "-" if first is None else f"{first['step']}",
        "-" if first is None or onset is None else f"{first['step'] - onset:+g}",
        "**not found**" if first is None else f"{first['rule']} ({first['severity']})",
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
