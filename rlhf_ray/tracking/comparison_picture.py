"""A comparison of runs as a picture: what is maximised, how far it went, what is meant, what reward models are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from rlhf_ray.tracking.comparison import ACCURACY, GOLD_SCORE, KL, REWARD, WIN_RATE, Comparison
from rlhf_ray.tracking.picture import STYLE, save_picture, say_not_measured
from rlhf_ray.tracking.run_style import GREY, RED, run_styles

PANELS = (
    (REWARD, "What is maximised", "score - beta * KL"),
    (KL, "Distance from the start", "KL (nats per answer)"),
    (GOLD_SCORE, "Gold score (not trained on)", "gold score"),
)
LINE_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^"}


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """Curves of all runs with a cross where one leaves its group, and accuracy against win rate."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 7.6), dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1))
        *curves, last = figure.subplots(2, 2).ravel()
        for axes, (metric, title, unit) in zip(curves, PANELS, strict=True):
            axes.set(title=title, ylabel=unit, xlabel="iteration")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            _draw_curves(axes, comparison, metric)
        _draw_results(last, comparison)
        figure.legend(handles=list(_legend(comparison)), loc="outside lower center", ncols=6)
        save_picture(figure, path)


def _draw_curves(axes: Axes, comparison: Comparison, metric: str) -> None:
    for run, style in zip(comparison.runs, run_styles(comparison.groups), strict=True):
        if metric in run.curves:
            curve = run.curves[metric]
            axes.plot(
                curve.steps, curve.values, color=style.colour, linestyle=LINE_STYLES[style.dash], label=style.label
            )
    if not axes.lines:
        say_not_measured(axes)
    curves = {run.run_id: run.curves for run in comparison.runs}
    for one in comparison.leaving:
        height = one.value if one.value is not None else curves[one.run_id][one.metric].before(one.iteration)
        if one.metric == metric and height is not None:
            axes.plot(one.iteration, height, marker="X", color=RED, markersize=9)
            words, behind = f"seed {one.seed} leaves at {one.iteration}", {"fc": "white", "ec": "none", "alpha": 0.8}
            axes.annotate(words, (one.iteration, height), (8, 8), textcoords="offset points", color=RED, bbox=behind)


def _draw_results(axes: Axes, comparison: Comparison) -> None:
    found = comparison.correlation
    axes.set(
        title="Reward model and result" + ("" if found is None else f" (correlation {found.pearson:+.2f})"),
        xlabel="reward model right on held-out pairs",
        ylabel="win rate at the end",
    )
    for run, style in zip(comparison.runs, run_styles(comparison.groups), strict=True):
        accuracy, rate = run.last(ACCURACY), run.last(WIN_RATE)
        if run.status == "finished" and accuracy is not None and rate is not None:
            axes.plot(accuracy, rate, MARKERS[style.symbol], color=style.colour, markersize=9)
            axes.annotate(f"seed {run.seed}", (accuracy, rate), (7, 5), textcoords="offset points")
    if not axes.lines:
        say_not_measured(axes)
        return
    axes.margins(0.15)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=1))


def _legend(comparison: Comparison) -> Iterator[Line2D]:
    """A colour a seed and, where there are several groups, a kind of line and point each."""
    styles = run_styles(comparison.groups)
    seeds = {run.seed: style.colour for run, style in zip(comparison.runs, styles, strict=True)}
    for seed in sorted(seeds):
        yield Line2D([], [], color=seeds[seed], label=f"seed {seed}")
    several = comparison.groups if len(comparison.groups) > 1 else ()
    first = [styles[sum(len(one.runs) for one in several[:number])] for number in range(len(several))]
    for group, style in zip(several, first, strict=True):
        line, point = LINE_STYLES[style.dash], MARKERS[style.symbol]
        yield Line2D([], [], color=GREY, linestyle=line, marker=point, label=group.name)
