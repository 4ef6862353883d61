"""A run that is continued goes on with the rows that it was started with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.errors import OtherDataError
from rlhf_ray.pipeline.context import DATA_FILE, Context


def require_same_data(ctx: Context) -> None:
    """Compares with data.json, which the first stage wrote. Raises OtherDataError that says what differs."""
    file = ctx.run_dir / DATA_FILE
    if ctx.config.resume is None or not file.is_file():
        return
    stored = json.loads(file.read_text(encoding="utf-8"))
    if stored["fingerprint"] == ctx.opened.rows.fingerprint:
        return
    team = ctx.opened.team
    (found,) = team.runtime.gather([team.runtime.call(team.workers.data, DataWorker.specification)])
    what = "; ".join(differences(stored["tokens"], found["tokens"]))
    told = f"resume={ctx.run_dir}: the rows are not those that the run was started with, as {DATA_FILE} tells: {what}"
    if not ctx.config.tracking.allow_changed:
        raise OtherDataError(f"{told}; accepted are the files as they were, or tracking.allow_changed=true")
    ctx.display.message(f"warning: {told}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Which kinds of rows differ in number or lengths; where none do, their content does."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    for name in changed:
        yield f"{name}: {_counted(before.get(name))} then, {_counted(now.get(name))} now"
    if not changed:
        yield "as many rows of the same lengths, with other token ids"


def _counted(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "none"
    mean = f" of {figures['mean']:.2f} tokens on average" if "mean" in figures else ""
    return f"{figures['rows']} rows{mean}"
