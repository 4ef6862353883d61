"""Runs of seconds: the settings of experiment=tiny_test, teams that stay open, and stages run over them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlhf_ray.config.schema import TrainConfig
    from rlhf_ray.pipeline.context import Context
    from rlhf_ray.pipeline.start import Opened

LOCAL = ("generator=hf", "placement=local")
ROLES = ("data", "policy", "critic", "reference", "reward", "generator")
ON_RAY = ("generator=hf", *(f"placement.{role}.num_cpus=0.1" for role in ROLES))
TWO_GENERATORS = "generator.num_replicas=2"
# what two runs with the same seed may differ in
MEASURED = ("time/", "throughput/", "eps", "sync/seconds")


def small_config(run_dir: Path, *words: str) -> TrainConfig:
    """The checked settings of `experiment=tiny_test` with these words."""
    from rlhf_ray.config.host import Host
    from rlhf_ray.config.load import Start, load

    start = Start(folder=run_dir.parent, run_name="run", job=None, host=Host(num_cpus=2, num_gpus=0, has_vllm=True))
    return load(["experiment=tiny_test", "tracking.progress=off", f"run_dir={run_dir}", *words], start).config


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A team with its data and engines open, and trained models of the first two stages."""

    opened: Opened
    words: tuple[str, ...]  # that it was opened with
    policy: Path
    reward: Path

    def config(self, run_dir: Path, *words: str) -> TrainConfig:
        """Settings of a run over this team. What the workers were started with must not be among the words."""
        return small_config(run_dir, *self.words, *words)

    @contextmanager
    def context(self, run_dir: Path, *words: str) -> Iterator[Context]:
        """A run directory of its own over the open team."""
        with context(self.opened, self.config(run_dir, *words)) as ctx:
            yield ctx

    def open_models(self, run_dir: Path, *words: str) -> None:
        """Fresh learners and frozen models, and version 0 in every generator."""
        from rlhf_ray.pipeline.stages import open_models

        with self.context(run_dir, *words) as ctx:
            open_models(ctx, policy=self.policy, reward=self.reward)
        self.opened.team.sync(version=0)


@contextmanager
def context(opened: Opened, config: TrainConfig) -> Iterator[Context]:
    """Records in config.run_dir, closed at the end."""
    from rlhf_ray.pipeline.context import Context
    from rlhf_ray.pipeline.monitor import Monitor
    from rlhf_ray.pipeline.tracker import Tracker
    from rlhf_ray.tracking.progress import PlainDisplay
    from rlhf_ray.tracking.records import RunStatus, resume_records, start_records

    run_dir = Path(config.run_dir)
    if (run_dir / "run.json").exists():
        records = resume_records(run_dir, command=(), source=run_dir, clock=lambda: 0.0)
    else:
        settings = asdict(config)
        records = start_records(run_dir, config=settings, command=(), seed=1, source=run_dir, clock=lambda: 0.0)
    display = PlainDisplay(StringIO(), clock=lambda: 0.0)
    monitor = Monitor(config, run_dir, rows=records.rows(), tell=display.message)
    yield Context(
        config=config,
        run_dir=run_dir,
        opened=opened,
        records=records,
        display=display,
        tracker=Tracker(config, records, tell=display.message),
        monitor=monitor,
    )
    monitor.close()
    records.finish(RunStatus.FINISHED, error=None)


def read_metrics(run_dir: Path, stage: str | None = None) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, of one stage or all."""
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if stage in (None, row["stage"])]


def reproducible(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what the clock decides."""
    return [{name: value for name, value in row.items() if not name.startswith(MEASURED)} for row in rows]


def by_step(rows: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Rows of one stage by their step."""
    assert len({row["step"] for row in rows}) == len(rows), "one row a step"
    return {row["step"]: row for row in rows}
