"""What a person sees while a run goes on: live bars on a terminal, one plain line a record in a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from rlhf_ray.errors import ConfigError

# metric, how it is shown; in this order, those that a record has
FIGURES = (
    ("sft/loss", "loss {:.3f}"),
    ("sft/val_loss", "held out {:.3f}"),
    ("reward_model/loss", "loss {:.3f}"),
    ("reward_model/accuracy", "accuracy {:.1%}"),
    ("reward_model/val_accuracy", "held out {:.1%}"),
    ("objective/scores", "score {:+.2f}"),
    ("eval/gold_score", "gold {:+.2f}"),
    ("objective/kl", "KL {:.2f}"),
    ("throughput/tokens_per_second", "{:,.0f} tokens/s"),
)

Values = Mapping[str, float | None]


class Display(Protocol):
    """Shows stages and their records."""

    def stage(self, name: str, *, total: int, done: int) -> None:
        """A stage of `total` steps begins, of which a resumed run has `done` behind it."""

    def advance(self, step: int, values: Values) -> None:
        """`step` steps of the stage are done; these are the newest metrics."""

    def message(self, text: str) -> None:
        """Something worth a line of its own."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class LiveDisplay:
    """A bar a stage, with the last known figures and the time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._task: TaskID | None = None
        self._stage = ""
        self._values: dict[str, float | None] = {}
        self._progress.start()

    def stage(self, name: str, *, total: int, done: int) -> None:
        """See Display."""
        self._values, self._stage = {}, name
        self._task = self._progress.add_task(name, total=total, completed=done, figures="")

    def advance(self, step: int, values: Values) -> None:
        """See Display. Figures that this record lacks keep their last value."""
        assert self._task is not None, "advance before stage"
        self._values |= values
        self._progress.update(self._task, completed=step, figures="  ".join(figures(self._values, stage=self._stage)))

    def message(self, text: str) -> None:
        """See Display."""
        self._progress.console.print(Text(text))

    def close(self) -> None:
        """See Display."""
        self._progress.stop()


class PlainDisplay:
    """One line a record, without control codes."""

    def __init__(self, stream: IO[str], *, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._name, self._total, self._done, self._began = "", 0, 0, 0.0

    def stage(self, name: str, *, total: int, done: int) -> None:
        """See Display."""
        self._name, self._total, self._done, self._began = name, total, done, self._clock()

    def advance(self, step: int, values: Values) -> None:
        """See Display."""
        line = [f"{self._name} {step}/{self._total}", *figures(values, stage=self._name)]
        if self._done < step < self._total:
            per_step = (self._clock() - self._began) / (step - self._done)
            line.append(f"{duration(per_step * (self._total - step))} left")
        self.message("  ".join(line))

    def message(self, text: str) -> None:
        """See Display."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        """See Display."""
        self._stream.flush()


def open_display(mode: str, *, console: Console, clock: Callable[[], float]) -> Display:
    """Live where `mode` is "on", or "auto" and the console a terminal that can move its cursor; else plain lines."""
    match mode:
        case "on":
            return LiveDisplay(console)
        case "auto" if console.is_terminal and not console.is_dumb_terminal:
            return LiveDisplay(console)
        case "auto" | "off":
            return PlainDisplay(console.file, clock=clock)
        case _:
            raise ConfigError(f"tracking.progress={mode}; accepted are auto, on, off")


def figures(values: Values, *, stage: str) -> list[str]:
    """The figures that have a value, ready to show; those of another stage that ride along are left out."""
    others = tuple(f"{other}/" for other in ("sft", "reward_model") if other != stage)
    shown = ((pattern, values.get(name)) for name, pattern in FIGURES if not name.startswith(others))
    return [pattern.format(value) for pattern, value in shown if value is not None]


def duration(seconds: float) -> str:
    """1:05 or 2:01:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
