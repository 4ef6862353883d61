"""A diagnosis as text for a terminal, and as JSON. Both are made from the Diagnosis alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlhf_ray.doctor.findings import Curve, Diagnosis, Evidence, Finding, Phase, Severity, finding_record

_BARS = "▁▂▃▄▅▆▇█"
_MANY = 12


def as_text(diagnosis: Diagnosis, *, width: int) -> str:
    """The whole report."""
    return "\n".join(line for block in _blocks(diagnosis, width) for line in block).rstrip() + "\n"


def closing_line(diagnosis: Diagnosis, run_dir: Path) -> str:
    """The verdict in a line, for the end of a run."""
    serious = [finding for finding in diagnosis.findings if finding.severity > Severity.WATCH]
    if not serious:
        return "doctor: healthy"
    phrases = ", ".join(dict.fromkeys(finding.phrase for finding in serious))
    count = f"{len(serious)} finding{'s' * (len(serious) > 1)}"
    return f"doctor: {count} ({phrases}); what to do: python -m rlhf_ray.doctor {run_dir}"


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """In JSON's own types; numbers that are not finite become null."""
    record = vars(diagnosis) | {
        "severity": "healthy" if diagnosis.severity is None else diagnosis.severity.word,
        "phases": [vars(phase) | {"severity": _word(phase)} for phase in diagnosis.phases],
        "findings": [finding_record(finding) for finding in diagnosis.findings],
        "curves": [vars(curve) for curve in diagnosis.curves],
        "taken": [{"theirs": theirs, "ours": ours, "origin": origin} for theirs, ours, origin in diagnosis.taken],
        "skipped": [vars(item) for item in diagnosis.skipped],
    }
    finite: dict[str, Any] = finite_only(record)
    return finite


def finite_only(value: Any) -> Any:
    """Nested records without NaN and infinities."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: finite_only(item) for name, item in value.items()}
        case list() | tuple():
            return [finite_only(item) for item in value]
        case _:
            return value


def sparkline(shape: Sequence[float]) -> str:
    """Blocks of eight heights; a flat curve is a line of the lowest."""
    low, high = min(shape), max(shape)
    scale = (len(_BARS) - 1) / (high - low) if high > low and math.isfinite(high - low) else 0.0
    return "".join(_BARS[round((value - low) * scale)] if scale else _BARS[0] for value in shape)


def _blocks(diagnosis: Diagnosis, width: int) -> Iterator[list[str]]:
    yield [f"{diagnosis.source} ({diagnosis.format}, {diagnosis.num_steps} steps)", ""]
    yield [*_wrapped(f"VERDICT  {diagnosis.verdict}", width, "         "), ""]
    if diagnosis.phases:
        yield ["PHASES", *(line for phase in diagnosis.phases for line in _phase(phase, width)), ""]
    if diagnosis.findings:
        yield ["FINDINGS"]
        told: dict[str, int] = {}  # a piece of advice: the finding it was given under
        for number, finding in enumerate(diagnosis.findings, start=1):
            yield [*_finding(finding, number, width, told), ""]
    if diagnosis.estimates:
        yield ["ESTIMATES", *(line for text in diagnosis.estimates for line in _wrapped(f"  {text}", width, "  ")), ""]
    if diagnosis.curves:
        yield ["CURVES", *(_curve(curve) for curve in diagnosis.curves), ""]
    yield ["COLUMNS", *_columns(diagnosis, width), ""]
    if diagnosis.skipped:
        yield ["NOT CHECKED", *_skipped(diagnosis, width), ""]
    if diagnosis.notes:
        yield ["NOTES", *(line for note in diagnosis.notes for line in _wrapped(f"  {note}", width, "    ")), ""]


def _phase(phase: Phase, width: int) -> list[str]:
    span = f"step {phase.first:g}" if phase.first == phase.last else f"steps {phase.first:g}-{phase.last:g}"
    return _wrapped(
        f"  {phase.stage} {span}: {'' if phase.severity is None else _mark(phase)}{phase.text}", width, "    "
    )


def _mark(phase: Phase) -> str:
    return "" if _word(phase) in ("healthy", "watch") else f"{_word(phase).upper()} "


def _word(phase: Phase) -> str:
    return "healthy" if phase.severity is None else phase.severity.word


def _finding(finding: Finding, number: int, width: int, told: dict[str, int]) -> Iterator[str]:
    over = f", over at step {finding.until:g}" if finding.until is not None else ""
    head = f"{number}. {finding.severity.word.upper()} {finding.kind} ({finding.form}), {finding.stage}, "
    yield from _wrapped(f"{head}from step {finding.first_step:g}{over}: {finding.summary}", width, "   ")
    for item in finding.evidence:
        yield from _wrapped(f"   evidence: {_evidence(item)}", width, "     ")
    yield from _wrapped(f"   likely causes: {'; '.join(finding.causes)}", width, "     ")
    repeated = [change for change in finding.changes if change.text in told]
    for change in finding.changes:
        if change.text not in told:
            told[change.text] = number
            yield from _wrapped(f"   do: {change.text}", width, "     ")
            yield from _wrapped(f"     risk: {change.risk}", width, "       ")
    if repeated:
        also = ", ".join(f"{_short(change.text)} ({told[change.text]})" for change in repeated)
        yield from _wrapped(f"   do, as under the finding in brackets: {also}", width, "     ")
    yield from _wrapped(f"   watch next: {', '.join(finding.watch_next)}", width, "     ")


def _short(text: str) -> str:
    """Advice without its numbers and reason."""
    return text.partition(":")[0].partition(" from ")[0].partition(" to ")[0]


def _evidence(item: Evidence) -> str:
    before = "" if item.before is None else f"{_number(item.before)} before, "
    limit = "" if item.limit is None else f" (limit {_number(item.limit)})"
    last = "" if item.last == item.after else f", {_number(item.last)} at the end"
    return f"{item.metric} {before}{_number(item.after)} from then on{last}{limit}"


def _curve(curve: Curve) -> str:
    line = sparkline(curve.shape)
    numbers = f"{_number(curve.first)} -> {_number(curve.last)}  [{_number(curve.low)}, {_number(curve.high)}]"
    return f"  {curve.metric:<28} {line:<40}  {numbers}"


def _columns(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    renamed = [f"{theirs} = {ours} ({origin})" for theirs, ours, origin in diagnosis.taken if origin != "own name"]
    own = [ours for _theirs, ours, origin in diagnosis.taken if origin == "own name"]
    for line in renamed:
        yield f"  {line}"
    for words, names in (("under their own names", own), ("not used", diagnosis.unused)):
        if names:
            more = f" and {len(names) - _MANY} more (all: --json)" if len(names) > _MANY else ""
            yield from _wrapped(f"  {words}: {', '.join(names[:_MANY])}{more}", width, "    ")


def _skipped(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    for item in diagnosis.skipped:
        yield from _wrapped(f"  {item.rule}: needs {item.missing}", width, "    ")
    yield from _wrapped(f"  to have them checked, also log: {', '.join(diagnosis.to_log)}", width, "    ")


def _number(value: float) -> str:
    return "not finite" if not math.isfinite(value) else f"{value:.4g}"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
