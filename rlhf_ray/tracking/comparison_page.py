"""A comparison of runs as a page that needs nothing else, and as a table for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np
from plotly.graph_objects import Figure as Chart
from plotly.graph_objects import Scatter
from plotly.io import to_html
from plotly.subplots import make_subplots

from rlhf_ray.tracking.comparison import Comparison, Correlation, Figure
from rlhf_ray.tracking.run_curves import Curve, RunCurves

# metrics that are shown to a person, where they were measured
SHOWN = (
    "objective/rlhf_reward",
    "objective/scores",
    "objective/kl",
    "eval/gold_score",
    "eval/proxy_score",
    "eval/win_rate",
    "eval/kl",
    "eval/distinct_2",
    "eval/repetition_4gram",
    "eval/eos_rate",
    "eval/perplexity",
    "response/length_mean",
    "reward_model/val_accuracy",
    "reward_model/score_ceiling",
    "sft/val_loss",
)
DRAWN = ("objective/rlhf_reward", "objective/kl", "objective/scores", "eval/gold_score")
MAX_POINTS = 2000  # of a curve
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe & Ito
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 0 0 1.5rem } td, th { padding: .2rem .7rem; border-bottom: 1px solid #ddd }
td { text-align: right } td:first-child, th:first-child { text-align: left } .bad { color: #b00020 }
"""


def comparison_page(comparison: Comparison) -> str:
    """HTML with the library that draws in it."""
    return "".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Comparison of runs</title>',
            f"<style>{STYLE}</style>",
            f"<h1>{len(comparison.runs)} runs</h1>",
            *_warnings(comparison),
            to_html(curves_chart(comparison), include_plotlyjs=True, full_html=False),
            *_tables(comparison),
            _correlation(comparison.correlation),
            to_html(accuracy_chart(comparison.runs), include_plotlyjs=False, full_html=False),
            *_settings(comparison),
            "</html>\n",
        ]
    )


def comparison_csv(comparison: Comparison) -> str:
    """One line a metric and group: mean, middle mean, interval, then every seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", "metric", "mean", "iqm", "low_95", "high_95", "run", "seed", "status", "value"])
    for group in comparison.groups:
        for figure in comparison.figures[group.name]:
            for run, value in zip(group.runs, figure.values, strict=True):
                about = [group.name, figure.metric, figure.mean, figure.iqm, figure.low, figure.high]
                writer.writerow([*about, run.run_id, run.seed, run.status, value])
    return text.getvalue()


def shown_figures(figures: Sequence[Figure]) -> list[Figure]:
    """Those for a person, in the order of SHOWN."""
    return sorted((one for one in figures if one.metric in SHOWN), key=lambda one: SHOWN.index(one.metric))


def words(value: float | None) -> str:
    """A number in at most four digits."""
    return "" if value is None else f"{value:.4g}"


def warnings(comparison: Comparison) -> Iterator[str]:
    """Runs that failed, with their reason, and runs that leave their group, with the iteration."""
    for run in comparison.failed:
        yield f"{run.run_id} (seed {run.seed}) {run.status}: {run.error}"
    for one in comparison.leaving:
        value = "not finite" if one.value is None else words(one.value)
        where = f"leaves its group at iteration {one.iteration}"
        back = "" if one.back is None else f", back at {one.back}"
        yield f"{one.run_id} (seed {one.seed}) {where}{back}: {one.metric} is {value}"


def curves_chart(comparison: Comparison) -> Chart:
    """The drawn metrics of all runs, one colour a seed; where a run leaves its group there is a cross."""
    drawn = [name for name in DRAWN if any(name in run.curves for run in comparison.runs)]
    chart = make_subplots(rows=max(1, len(drawn)), cols=1, subplot_titles=drawn, vertical_spacing=0.06)
    several = len(comparison.groups) > 1
    for row, name in enumerate(drawn, start=1):
        for number, run in enumerate(comparison.runs):
            if name not in run.curves:
                continue
            steps, values = thinned(run.curves[name])
            chart.add_trace(
                Scatter(
                    x=steps,
                    y=values,
                    name=f"{run.run_id} (seed {run.seed})" if several else f"seed {run.seed}",
                    legendgroup=run.run_id,
                    showlegend=row == 1,
                    line={"color": PALETTE[number % len(PALETTE)]},
                ),
                row=row,
                col=1,
            )
        left = [one for one in comparison.leaving if one.metric == name]
        points = {"x": [one.iteration for one in left], "y": [one.value for one in left]}
        marks = {"symbol": "x", "size": 12, "color": "#b00020"}
        chart.add_trace(
            Scatter(**points, mode="markers", marker=marks, name="leaves", showlegend=False), row=row, col=1
        )
    chart.update_layout(height=320 * max(1, len(drawn)), template="plotly_white", hovermode="x unified")
    return chart


def accuracy_chart(runs: Sequence[RunCurves]) -> Chart:
    """Each run: how accurate its reward model was, and how often its policy wins."""
    chart = Chart(
        Scatter(
            x=[run.last("reward_model/val_accuracy") for run in runs],
            y=[run.last("eval/win_rate") for run in runs],
            text=[f"{run.run_id}, seed {run.seed}" for run in runs],
            mode="markers",
            marker={"size": 11, "color": PALETTE[0]},
        )
    )
    chart.update_layout(
        height=380,
        template="plotly_white",
        xaxis_title="reward model: accuracy on held-out pairs",
        yaxis_title="win rate at the end",
    )
    return chart


def thinned(curve: Curve) -> tuple[list[float], list[float | None]]:
    """At most MAX_POINTS points: of each stretch its lowest and its highest, so that no spike is lost."""
    steps, values = curve.steps, curve.values
    if len(steps) > MAX_POINTS:
        pieces = np.array_split(np.arange(len(steps)), MAX_POINTS // 2)
        filled = [np.where(np.isnan(values[piece]), -np.inf, values[piece]) for piece in pieces]
        ends = [(piece[part.argmin()], piece[part.argmax()]) for piece, part in zip(pieces, filled, strict=True)]
        kept = np.unique(np.array(ends))
        steps, values = steps[kept], values[kept]
    return steps.tolist(), [value if np.isfinite(value) else None for value in values.tolist()]


def _warnings(comparison: Comparison) -> Iterator[str]:
    for line in warnings(comparison):
        yield f'<p class="bad">{escape(line)}</p>'


def _tables(comparison: Comparison) -> Iterator[str]:
    for group in comparison.groups:
        head = ["metric", "mean", "middle mean", "95 % interval", *(f"seed {run.seed}" for run in group.runs)]
        rows = [
            [
                one.metric,
                words(one.mean),
                words(one.iqm),
                "" if one.low is None else f"{words(one.low)} to {words(one.high)}",
                *map(words, one.values),
            ]
            for one in shown_figures(comparison.figures[group.name])
        ]
        yield f"<h2>{escape(group.name)}</h2>{_table(head, rows)}"


def _settings(comparison: Comparison) -> Iterator[str]:
    if comparison.differing:
        head = ["setting", *(run.run_id for run in comparison.runs)]
        rows = [[key, *map(str, values)] for key, values in comparison.differing.items()]
        yield f"<h2>Settings that differ</h2>{_table(head, rows)}"


def _correlation(found: Correlation | None) -> str:
    if found is None:
        return "<h2>Reward model and result</h2><p>Too few runs, or no spread, to correlate them.</p>"
    return (
        f"<h2>Reward model and result</h2><p>Correlation of accuracy and win rate over {found.pairs} runs: "
        f"{found.pearson:+.2f} (p = {found.p_value:.2g})</p>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
