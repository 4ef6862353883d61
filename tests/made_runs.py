"""Run directories whose numbers are made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlhf_ray.doctor.findings import finding_record
from rlhf_ray.doctor.online import Doctor
from rlhf_ray.doctor.rules import RULES

ITERATIONS = 20


def sick_rows() -> list[dict[str, float | str]]:
    """PPO: from iteration 11 on the KL runs away, and gold falls while the score rises."""
    rows: list[dict[str, float | str]] = [
        {"stage": "sft", "step": step, "sft/loss": 2.0 - step / 50} for step in range(30)
    ]
    for step in range(1, ITERATIONS + 1):
        late = max(0, step - 10)
        row: dict[str, float | str] = {
            "stage": "ppo",
            "step": step,
            "objective/scores": 0.1 * step,
            "objective/scores_p05": 0.1 * step - 0.5,
            "objective/scores_p95": 0.1 * step + 0.5,
            "objective/kl": 0.3 * step + 4.0 * late,
            "objective/kl_coef": 0.05,
            "policy/entropy_avg": 1.5,
            "time/generate": 0.2,
            "time/update": 0.4,
        }
        if step % 2 == 0:
            row |= {"eval/gold_score": 0.05 * step - 0.1 * late, "eval/proxy_score": 0.1 * step, "eval/kl": 0.3 * step}
        rows.append(row)
    return rows


def write_sick_run(folder: Path, *, text: str = "The film was") -> Path:
    """A run directory with everything in it; `text` is in every place that holds words of a run."""
    folder.mkdir(parents=True)
    rows = sick_rows()
    _lines(folder / "metrics.jsonl", rows)
    doctor, told = Doctor(RULES, {}), []
    for row in rows:
        values = {name: value for name, value in row.items() if isinstance(value, float)}
        for finding in doctor.observe(str(row["stage"]), int(row["step"]), values):
            told.append({"record": "finding", "step": row["step"], **finding_record(finding)})
    gone = told[0] | {
        "rule": "lost_eos.rate",
        "kind": "lost_eos",
        "phrase": text,
        "severity": "warning",
        "summary": text,
    }
    action = {
        "record": "action",
        "step": 14,
        "stage": "ppo",
        "kind": "lost_eos",
        "form": "rate",
        "policy": "rollback",
        "kl_coef": 0.075,
        "learning_rate_share": 1.0,
        "rollback_to": 10,
        "reason": text,
    }
    _lines(folder / "findings.jsonl", [*told, gone, action])
    run = {
        "id": folder.name,
        "status": "failed",
        "error": text,
        "started": "2026-01-01T00:00:00+00:00",
        "seed": 1,
        "command": [text],
        "versions": {text: text},
        "git": {"commit": "0123456789abcdef", "changed": False},
        "platform": {"cpus": 2, "host": text},
        "config": {"algorithm": {"kl_coef": 0.05}, "data": {"prompts": text}},
    }
    _json(folder / "run.json", run)
    parents = [{"name": text, "digest": "sha256:" + "1" * 64}]
    made = [{"kind": "policy", "name": text, "version": 20, "digest": "sha256:" + "0" * 64, "parents": parents}]
    _json(
        folder / "lineage.json",
        {
            "run": folder.name,
            "made": made,
            "used": [{"role": "base", "name": text, "path": text, "digest": "sha256:" + "2" * 64}],
        },
    )
    (folder / "samples").mkdir()
    for step in (0, 10, 20):
        _json(
            folder / "samples" / f"step-{step:06d}.json",
            [
                {"prompt": f"{text} {number}", "answer": f"{text} at {step}", "score": 0.1 * step * number, "gold": 0.5}
                for number in range(3)
            ],
        )
    (folder / "rollouts").mkdir()
    for step in range(1, ITERATIONS + 1):
        scores = np.linspace(-1.0, 1.0, 16) + 0.1 * step
        pq.write_table(pa.table({"score": scores}), folder / "rollouts" / f"step-{step:06d}.parquet")
    return folder


def _lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
