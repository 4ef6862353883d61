"""What the template shows: plain records made from the material, no markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlhf_ray.doctor.findings import Diagnosis, Finding, Phase, Severity
from rlhf_ray.report.chart_table import STAGE_TITLES
from rlhf_ray.report.material import Curves, Material, Record

SHOWN_ITERATIONS = 6  # columns of answers: the first, the last, and what lies evenly between
SHOWN_PROMPTS = 12
SHOWN_FINDINGS = 3
MARK_WIDTH = 2.6  # per cent of the time line


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A number at the top."""

    label: str
    value: str
    before: str  # where it came from, or a unit


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch or a mark of a stage's time line; places in per cent of its length."""

    left: float
    width: float
    lane: int  # marks at the same place lie under each other
    severity: str
    text: str
    finding: int | None  # number of the card it leads to


@dataclass(frozen=True, kw_only=True)
class Track:
    """A stage on the time line."""

    title: str
    first: float
    last: float
    phases: tuple[Piece, ...]
    marks: tuple[Piece, ...]
    actions: tuple[Piece, ...]

    @property
    def lanes(self) -> int:
        """How many rows of marks there are."""
        return max((piece.lane + 1 for piece in self.marks), default=0)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the policy of one evaluation said."""

    step: int
    text: str
    score: float | None
    gold: float | None


@dataclass(frozen=True, kw_only=True)
class PromptHistory:
    """The answers to one prompt over the evaluations."""

    prompt: str
    answers: tuple[Answer, ...]
    gap: float | None  # last score - last gold score


def all_findings(material: Material) -> tuple[Finding, ...]:
    """Those of the whole log, then those that were told while it ran and no longer show (a rollback took them away)."""
    known = {(finding.stage, finding.rule) for finding in material.diagnosis.findings}
    gone: dict[tuple[str, str], Finding] = {}
    for finding in material.told:
        if (finding.stage, finding.rule) not in known:
            gone[finding.stage, finding.rule] = finding  # the last is the worst
    return (*material.diagnosis.findings, *gone.values())


def opened(findings: Sequence[Finding]) -> tuple[int, ...]:
    """The numbers of the cards that lie open: the first of each kind, where it is more than to be watched."""
    first: dict[str, int] = {}
    for number, finding in enumerate(findings, start=1):
        if finding.severity > Severity.WATCH:
            first.setdefault(finding.kind, number)
    return tuple(first.values())[:SHOWN_FINDINGS]


def tiles(summary: Record) -> Iterator[Tile]:
    """The headline numbers of summary.json, where there are any."""
    before, after = summary.get("before") or {}, summary.get("after") or {}
    for label, metric, pattern in (
        ("gold score", "eval/gold_score", "{:+.2f}"),
        ("reward-model score", "eval/proxy_score", "{:+.2f}"),
        ("win rate against the start", "eval/win_rate", "{:.0%}"),
        ("KL to the start, nats", "eval/kl", "{:.2f}"),
        ("answers that end", "eval/eos_rate", "{:.0%}"),
        ("perplexity of held-out text", "eval/perplexity", "{:.1f}"),
    ):
        if after.get(metric) is not None:
            start = before.get(metric)
            yield Tile(
                label=label,
                value=pattern.format(after[metric]),
                before="" if start is None else f"before: {pattern.format(start)}",
            )
    accuracy = (summary.get("reward_model") or {}).get("reward_model/val_accuracy")
    if accuracy is not None:
        yield Tile(label="reward model, held-out pairs", value=f"{accuracy:.0%}", before="in the right order")
    seconds = summary.get("seconds")
    if seconds:
        parts = ", ".join(f"{STAGE_TITLES.get(name, name)} {clock(value)}" for name, value in seconds.items())
        yield Tile(label="time", value=clock(sum(seconds.values())), before=parts)


def tracks(
    diagnosis: Diagnosis, curves: Curves, findings: Sequence[Finding], actions: Sequence[Record]
) -> Iterator[Track]:
    """The time line: every stage over its own steps."""
    for stage, series in curves.items():
        steps = [float(step) for one in series.values() for step in (one.steps[0], one.steps[-1]) if one.size]
        if not steps:
            continue
        first, last = min(steps), max(steps)
        place = _Place(first=first, length=max(last - first, 1e-9))
        phases = [phase for phase in diagnosis.phases if phase.stage == stage]
        ends = [*(phase.first for phase in phases[1:]), last]  # each goes on to the next
        yield Track(
            title=STAGE_TITLES.get(stage, stage),
            first=first,
            last=last,
            phases=tuple(place.stretch(phase, end) for phase, end in zip(phases, ends, strict=True)),
            marks=_in_lanes(
                place.mark(finding.first_step, finding.severity.word, finding.summary, number)
                for number, finding in enumerate(findings, start=1)
                if finding.stage == stage
            ),
            actions=tuple(
                place.mark(action["step"], action["policy"], action["reason"], None)
                for action in actions
                if action["stage"] == stage
            ),
        )


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Steps to per cent."""

    first: float
    length: float

    def stretch(self, phase: Phase, end: float) -> Piece:
        left = self._left(phase.first)
        span = f"step {phase.first:g}" if phase.first == phase.last else f"steps {phase.first:g} to {phase.last:g}"
        return Piece(
            left=left,
            width=max(self._left(end) - left, 0.6),
            lane=0,
            severity="healthy" if phase.severity is None else phase.severity.word,
            text=f"{span}: {phase.text}",
            finding=None,
        )

    def mark(self, step: float, word: str, text: str, number: int | None) -> Piece:
        return Piece(
            left=self._left(step), width=0.0, lane=0, severity=word, text=f"step {step:g}: {text}", finding=number
        )

    def _left(self, step: float) -> float:
        return round(min(max((step - self.first) / self.length, 0.0), 1.0) * 100, 2)


def _in_lanes(marks: Iterable[Piece]) -> tuple[Piece, ...]:
    """Each mark in the first row in which it has room."""
    placed: list[Piece] = []
    for mark in marks:
        taken = {other.lane for other in placed if abs(other.left - mark.left) < MARK_WIDTH}
        lane = next(lane for lane in range(len(placed) + 1) if lane not in taken)
        placed.append(replace(mark, lane=lane))
    return tuple(placed)


def histories(samples: Mapping[int, Sequence[Record]]) -> tuple[PromptHistory, ...]:
    """The held-out prompts, those first whose answer the reward model rates most above gold; without gold, highest."""
    if not samples:
        return ()
    chosen = evenly(sorted(samples), SHOWN_ITERATIONS)
    last = samples[chosen[-1]]
    found = []
    for row, newest in enumerate(last):
        prompt = str(newest.get("prompt", ""))
        answers = tuple(
            Answer(
                step=step,
                text=str(said.get("answer", "")).strip() or "(empty)",
                score=_number(said, "score"),
                gold=_number(said, "gold"),
            )
            for step in chosen
            for said in samples[step][row : row + 1]
            if said.get("prompt") == newest.get("prompt")
        )
        found.append(PromptHistory(prompt=prompt, answers=answers, gap=_gap(answers[-1])))
    return tuple(sorted(found, key=_overrated, reverse=True))


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted keys."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def evenly(items: Sequence[int], count: int) -> list[int]:
    """The first, the last, and what lies evenly between."""
    if len(items) <= count:
        return list(items)
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]


def clock(seconds: float) -> str:
    """1:05 h, 2:30 min or 45 s."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
    return f"{whole // 60}:{whole % 60:02d} min" if whole >= 60 else f"{whole} s"


def _number(row: Record, name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None


def _gap(answer: Answer) -> float | None:
    return None if answer.score is None or answer.gold is None else answer.score - answer.gold


def _overrated(history: PromptHistory) -> tuple[float, float]:
    score = history.answers[-1].score
    return (
        float("-inf") if history.gap is None else history.gap,
        float("-inf") if score is None else score,
    )
