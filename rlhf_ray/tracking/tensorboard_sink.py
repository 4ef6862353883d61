"""TensorBoard: event files in <run>/tensorboard/<stage>, with the names of metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, StageRun, Tracked
from rlhf_ray.types import Histogram


class TensorboardSink:
    """Implements Sink."""

    def __init__(self, stage: StageRun, *, purge_from: int | None) -> None:
        """`purge_from`: what an earlier attempt wrote from this step on is left out by TensorBoard."""
        self._folder = stage.folder / "tensorboard" / stage.stage
        self._stage = stage
        self._step = 0
        self._writer = self._open(purge_from)
        about = {**stage.config, "used": [asdict(used) for used in stage.used]}
        self._write("config", json.dumps(about, indent=1, default=str))

    def metrics(self, step: int, values: Mapping[str, float | str]) -> None:
        """See Sink."""
        self._go_to(step)
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        for name in values.keys() - numbers.keys():
            self._write(name, str(values[name]))
        # one event for all: an event each costs five times as much
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        events = self._writer._get_file_writer()  # type: ignore[no-untyped-call]  # torch has no type for it
        events.add_summary(Summary(value=scalars), step)

    def show(self, step: int, item: Sheet | Histogram, *, name: str) -> None:
        """See Sink."""
        self._go_to(step)
        if isinstance(item, Sheet):
            self._writer.add_text(name, _markdown(item), step)
            return
        counts, edges = np.array(item.counts), np.array(item.edges)
        centres = (edges[1:] + edges[:-1]) / 2
        self._writer.add_histogram_raw(
            name,
            min=float(edges[0]),
            max=float(edges[-1]),
            num=int(counts.sum()),
            sum=float((counts * centres).sum()),
            sum_squares=float((counts * centres**2).sum()),
            bucket_limits=edges[1:].tolist(),
            bucket_counts=counts.tolist(),
            global_step=step,
        )

    def alert(self, alert: Alert) -> None:
        """See Sink."""
        self._write(f"alert/{alert.level}", f"{alert.title}: {alert.text}")

    def made(self, made: MadeArtifact) -> None:
        """See Sink."""
        self._write(f"artifact/{made.card.id.name}", json.dumps(made.about, indent=1))

    def close(self, end: End) -> None:
        """See Sink."""
        self._write("status", end.status if end.error is None else f"{end.status}: {end.error}")
        self._writer.close()

    def tracked(self) -> Tracked:
        """See Sink."""
        return Tracked(backend="tensorboard", run_id=self._stage.stage, url=str(self._folder), artifact=None)

    def _open(self, purge_from: int | None) -> SummaryWriter:
        return SummaryWriter(str(self._folder), purge_step=purge_from, flush_secs=10)

    def _go_to(self, step: int) -> None:
        if step < self._step:  # only a writer that is new can take steps back
            self._writer.close()
            self._writer = self._open(step)
        self._step = step

    def _write(self, tag: str, text: str) -> None:
        self._writer.add_text(tag, f"    {text.replace(chr(10), chr(10) + '    ')}", self._step)


def _markdown(sheet: Sheet) -> str:
    rows = [sheet.columns, ["---"] * len(sheet.columns), *sheet.rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in row) + " |" for row in rows)


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str("" if value is None else value)
    return text.replace("|", "\\|").replace("\n", " ")
