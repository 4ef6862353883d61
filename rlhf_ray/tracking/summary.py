"""What a run came to, from its records: as a dict for summary.json, and as tables for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.tracking.progress import duration

Row = Mapping[str, Any]  # a line of metrics.jsonl

# metric, label, format; shown before and after
COMPARED = (
    ("eval/gold_score", "gold score", "{:+.3f}"),
    ("eval/proxy_score", "reward-model score", "{:+.3f}"),
    ("eval/win_rate", "win rate against the start", "{:.1%}"),
    ("eval/kl", "KL to the start (nats per answer)", "{:.2f}"),
    ("eval/distinct_2", "distinct bigrams", "{:.3f}"),
    ("eval/repetition_4gram", "repeated 4-grams", "{:.3f}"),
    ("eval/eos_rate", "answers that end by themselves", "{:.1%}"),
    ("eval/length_mean", "length (tokens)", "{:.1f}"),
    ("eval/perplexity", "perplexity of held-out text", "{:.2f}"),
    ("eval/preference_accuracy", "reward model agrees with gold", "{:.1%}"),
)

REWARD_MODEL = (
    ("reward_model/val_accuracy", "held-out pairs", "{:.1%}"),
    ("reward_model/val_accuracy_clear", "held-out pairs that differ clearly", "{:.1%}"),
    ("reward_model/calibration_error", "calibration error", "{:.3f}"),
    ("reward_model/score_ceiling", "score ceiling", "{:+.2f}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """A held-out prompt with the answers of the policy it started as and of the one it became."""

    prompt: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the results lie."""

    model: Path | None
    records: Path


def summarise(
    rows: Sequence[Row], *, answers: Sequence[ShownAnswer], seconds: Mapping[str, float], places: Places
) -> dict[str, Any]:
    """The first and the last evaluation, the reward model's last validation, answers, times, places.

    What was not measured (no gold scorer, a stage that did not run) is left out.
    """
    evaluated = [row for row in rows if row["stage"] == "ppo" and any(name.startswith("eval/") for name in row)]
    validated = [row for row in rows if "reward_model/val_accuracy" in row]
    trained = [row for row in validated if row["stage"] == "reward_model"]  # else only what rides along with PPO
    names = [name for name, _, _ in COMPARED] + ["eval/win_rate_low", "eval/win_rate_high"]
    summary = {
        "before": _measured(evaluated[:1], names),
        "after": _measured(evaluated[-1:], names) if len(evaluated) > 1 else {},
        "reward_model": _measured((trained or validated)[-1:], [name for name, _, _ in REWARD_MODEL]),
        "iterations": max((row["step"] for row in rows if row["stage"] == "ppo"), default=0),
        "answers": [asdict(answer) for answer in answers],
        "seconds": dict(seconds),
        "model": None if places.model is None else str(places.model),
        "records": str(places.records),
    }
    return {name: value for name, value in summary.items() if value not in ({}, [], None, 0)}


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """summary.json."""
    write_json_atomic(run_dir / "summary.json", summary)


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Tables, answers and places; plain text where the console is no terminal."""
    console.print(Group(*_blocks(summary)))
    for name in ("model", "records"):
        if name in summary:  # never broken: a path is there to be copied
            console.print(Text.assemble((f"{name:9}", "bold"), summary[name]), soft_wrap=True)


def _blocks(summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    if "before" in summary:
        yield _comparison(summary["before"], summary.get("after", {}), summary.get("iterations", 0))
    if "reward_model" in summary:
        yield _figures("Reward model", REWARD_MODEL, summary["reward_model"])
    for answer in summary.get("answers", ()):
        yield _answer(answer)
    yield _times(summary.get("seconds", {}))


def _comparison(before: Row, after: Row, iterations: int) -> Table:
    table = Table("", title=f"Held-out prompts, before and after {iterations} iterations", title_justify="left")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, label, pattern in COMPARED:
        if name in before or name in after:
            table.add_row(label, _format(pattern, before.get(name)), _after(name, pattern, after))
    return table


def _after(name: str, pattern: str, after: Row) -> str:
    text = _format(pattern, after.get(name))
    low, high = after.get(f"{name}_low"), after.get(f"{name}_high")
    if low is None or high is None:
        return text
    return f"{text} ({pattern.format(low)} to {pattern.format(high)})"


def _figures(title: str, lines: Sequence[tuple[str, str, str]], values: Row) -> Table:
    table = Table("", title=title, title_justify="left")
    table.add_column("value", justify="right")
    for name, label, pattern in lines:
        if name in values:
            table.add_row(label, _format(pattern, values[name]))
    return table


def _answer(answer: Mapping[str, str]) -> Panel:
    before, after = (answer[name].strip() or "(empty)" for name in ("before", "after"))
    text = Text.assemble(("before ", "bold"), before, "\n", ("after  ", "bold"), after)
    return Panel(text, title=Text(answer["prompt"].strip()), title_align="left")


def _times(seconds: Mapping[str, float]) -> Text:
    parts = [f"{stage} {duration(spent)}" for stage, spent in seconds.items()]
    return Text.assemble(("time     ", "bold"), ", ".join([*parts, f"all stages {duration(sum(seconds.values()))}"]))


def _measured(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    return {name: row[name] for row in rows for name in names if row.get(name) is not None}


def _format(pattern: str, value: float | None) -> str:
    return "-" if value is None else pattern.format(value)
