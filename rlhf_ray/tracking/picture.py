"""Training curves as a picture. Four panels: what is maximised, what is meant, how far the policy went, its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, PercentFormatter

from rlhf_ray.files.atomic import replaced_atomically
from rlhf_ray.tracking.run_style import BLUE, GREEN, ORANGE, PINK, SEED_COLOURS, VERMILION

Row = Mapping[str, Any]  # a line of metrics.jsonl

STYLE = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
}


def draw_training_curves(rows: Sequence[Row], path: Path) -> None:
    """One run: score with its 5-95 % band, gold score, KL, length and share of finished answers, by iteration."""
    with rc_context(STYLE):
        figure, (score, gold, kl, answers) = _panels()
        _band(score, rows)
        _line(score, rows, "reward_model/score_ceiling", color=VERMILION, label="what it has seen (99 %)", style=":")
        _line(score, rows, "objective/scores", color=BLUE, label="mean of the batch")
        _points(score, rows, "eval/proxy_score", color=ORANGE, label="held-out prompts")
        _points(gold, rows, "eval/gold_score", color=GREEN, label="held-out prompts")
        _line(kl, rows, "objective/kl", color=VERMILION, label="mean of the batch")
        _points(kl, rows, "eval/kl", color=ORANGE, label="held-out prompts")
        _line(answers, rows, "response/length_mean", color=BLUE, label="length (left)")
        share = _share_axis(answers)
        _line(share, rows, "val/eos_rate", color=PINK, label="ended by themselves (right)", style="--")
        _legends(score, gold, kl)
        _joint_legend(answers, share)
        save_picture(figure, path)


def draw_seeds(rows_by_seed: Mapping[int, Sequence[Row]], path: Path) -> None:
    """Several runs that differ by seed, one colour each, laid over each other."""
    with rc_context(STYLE):
        figure, (score, gold, kl, answers) = _panels()
        share = _share_axis(answers)
        for (seed, rows), color in zip(rows_by_seed.items(), _cycle(SEED_COLOURS), strict=False):
            label = f"seed {seed}"
            _line(score, rows, "objective/scores", color=color, label=label)
            _points(gold, rows, "eval/gold_score", color=color, label=label)
            _line(kl, rows, "objective/kl", color=color, label=label)
            _line(answers, rows, "response/length_mean", color=color, label=label)
            _line(share, rows, "val/eos_rate", color=color, label=label, style="--")
        share.plot([], [], color="#444444", label="length (left)")
        share.plot([], [], color="#444444", linestyle="--", label="ended by themselves (right)")
        _legends(score, gold, kl)
        _joint_legend(answers, share)
        save_picture(figure, path)


def _panels() -> tuple[Figure, tuple[Axes, Axes, Axes, Axes]]:
    figure = Figure(figsize=(11, 7.2), dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1))
    score, gold, kl, answers = figure.subplots(2, 2, sharex=True).ravel()
    for axes, title, label in (
        (score, "Reward-model score", "score"),
        (gold, "Gold score (not trained on)", "gold score"),
        (kl, "Distance from the start", "KL (nats per answer)"),
        (answers, "Answers", "length (tokens)"),
    ):
        axes.set_title(title)
        axes.set_ylabel(label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (kl, answers):
        axes.set_xlabel("iteration")
    return figure, (score, gold, kl, answers)


def _share_axis(axes: Axes) -> Axes:
    share = axes.twinx()
    share.set_ylim(0.0, 1.03)
    share.set_ylabel("ended by themselves")
    share.yaxis.set_major_formatter(PercentFormatter(1.0))
    share.spines["right"].set_visible(True)
    share.grid(visible=False)
    return share


def _band(axes: Axes, rows: Sequence[Row]) -> None:
    found = [
        (row["step"], row["objective/scores_p05"], row["objective/scores_p95"])
        for row in _ppo(rows)
        if row.get("objective/scores_p05") is not None and row.get("objective/scores_p95") is not None
    ]
    if found:
        steps, low, high = zip(*found, strict=True)
        axes.fill_between(steps, low, high, color=BLUE, alpha=0.15, linewidth=0, label="5 to 95 % of answers")


def _line(axes: Axes, rows: Sequence[Row], name: str, *, color: str, label: str, style: str = "-") -> None:
    steps, values = _series(rows, name)
    if steps:
        axes.plot(steps, values, color=color, label=label, linestyle=style)


def _points(axes: Axes, rows: Sequence[Row], name: str, *, color: str, label: str) -> None:
    steps, values = _series(rows, name)
    if steps:
        axes.plot(steps, values, color=color, label=label, marker="o", linewidth=1.2)


def _series(rows: Sequence[Row], name: str) -> tuple[list[int], list[float]]:
    found = [(row["step"], row[name]) for row in _ppo(rows) if row.get(name) is not None]
    return [step for step, _ in found], [value for _, value in found]


def _ppo(rows: Sequence[Row]) -> Iterator[Row]:
    return (row for row in rows if row["stage"] == "ppo")


def _cycle(colours: Sequence[str]) -> Iterator[str]:
    while True:
        yield from colours


def _legends(*panels: Axes) -> None:
    for axes in panels:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
        else:
            say_not_measured(axes)


def say_not_measured(axes: Axes) -> None:
    """In a panel without a curve."""
    axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color="#888888")


def _joint_legend(left: Axes, right: Axes) -> None:
    """The last two entries of both axes, in the lower right corner, which curves from 0 on leave free."""
    left.set_ylim(bottom=0.0)
    handles, labels = (
        a + b for a, b in zip(*(axes.get_legend_handles_labels() for axes in (left, right)), strict=True)
    )
    right.legend(handles[-2:], labels[-2:], loc="lower right")


def save_picture(figure: Figure, path: Path) -> None:
    """As PNG, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_atomically(path) as temporary:
        figure.savefig(temporary, format="png")
