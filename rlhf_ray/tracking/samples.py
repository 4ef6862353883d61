"""Held-out prompts with the answers of the policy as it started and as it is now, and what was thought of them."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.files.atomic import write_json_atomic
from rlhf_ray.tracking.evaluation import Judged, row_sums
from rlhf_ray.tracking.sink import Cell, Sheet

SAMPLES = "samples"


def sample_sheet(baseline: Judged, newest: Judged, *, count: int) -> Sheet:
    """The first answer to each of the first `count` prompts. kl is the answer's, in nats; lengths are in tokens."""
    rows = range(0, min(count * newest.num_samples, len(newest.completions.texts)), newest.num_samples)
    kl = row_sums(newest.logprobs) - row_sums(newest.ref_logprobs)
    columns: dict[str, list[Cell]] = {
        "prompt": [newest.completions.prompts.texts[row] for row in rows],
        "sft_answer": [baseline.completions.texts[row] for row in rows],
        "answer": [newest.completions.texts[row] for row in rows],
        "sft_score": [float(baseline.proxy.scores[row]) for row in rows],
        "score": [float(newest.proxy.scores[row]) for row in rows],
    }
    if baseline.gold is not None and newest.gold is not None:
        columns["sft_gold"] = [float(baseline.gold.scores[row]) for row in rows]
        columns["gold"] = [float(newest.gold.scores[row]) for row in rows]
    for rewards in (newest.proxy, newest.gold):
        for part in () if rewards is None else rewards.parts:
            columns[f"part/{part.name}"] = [float(part.values[row]) for row in rows]
    columns["kl"] = [float(kl[row]) for row in rows]
    columns["length"] = [int(newest.completions.tokens.lengths[row]) for row in rows]
    columns["finish_reason"] = [newest.completions.finish_reasons[row].value for row in rows]
    return Sheet(name=SAMPLES, columns=tuple(columns), rows=tuple(zip(*columns.values(), strict=True)))


def write_samples(run_dir: Path, step: int, sheet: Sheet) -> None:
    """samples/step-000005.json: one object a prompt. A step that is done again takes the place of the first try."""
    path = run_dir / "samples" / f"step-{step:06d}.json"
    path.parent.mkdir(exist_ok=True)
    write_json_atomic(path, [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows])
