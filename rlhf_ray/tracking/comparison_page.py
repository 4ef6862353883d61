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

from rlhf_ray.tracking.comparison import (
    ACCURACY,
    GOLD_SCORE,
    KL,
    REWARD,
    SCORES,
    WIN_RATE,
    Comparison,
    Correlation,
    Figure,
    Leaving,
)
from rlhf_ray.tracking.run_curves import Curve, RunCurves
from rlhf_ray.tracking.run_style import RED, RunStyle, run_styles

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
# metric, title, unit of the panels, two a row
DRAWN = (
    (REWARD, "What is maximised (objective/rlhf_reward)", "score - beta * KL"),
    (KL, "Distance from the start (objective/kl)", "nats per answer"),
    (SCORES, "Reward-model score (objective/scores), dashed: the highest it has seen", "score"),
    (GOLD_SCORE, "Gold score, not trained on (eval/gold_score)", "score"),
)
CEILING = "reward_model/score_ceiling"  # drawn with the scores
MAX_POINTS = 2000  # of a curve
FEW_POINTS = 12  # of a curve whose points are marked
BARE = {"displaylogo": False, "responsive": True}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 0 0 1.5rem } td, th { padding: .2rem .7rem; border-bottom: 1px solid #ddd }
td { text-align: right } td:first-child, th:first-child { text-align: left } .bad { color: #b00020 }
.wide { overflow-x: auto } p { max-width: 60rem }
"""
SAID = (
    "Each value is a run's last one. Mean, inter-quartile mean (IQM: of the middle half) and the bootstrap 95 % "
    "interval of the mean are over the seeds whose run finished."
)


def comparison_page(comparison: Comparison) -> str:
    """HTML with the library that draws in it."""
    return "".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Comparison of runs</title>',
            f"<style>{STYLE}</style>",
            f"<h1>Comparison of {len(comparison.runs)} runs</h1>",
            *_warnings(comparison),
            to_html(curves_chart(comparison), include_plotlyjs=True, full_html=False, config=BARE),
            *_tables(comparison),
            f"<h2>Reward model and result</h2><p>{correlation_words(comparison.correlation)}</p>",
            to_html(accuracy_chart(comparison), include_plotlyjs=False, full_html=False, config=BARE),
            *_settings(comparison),
            "</html>\n",
        ]
    )


def comparison_csv(comparison: Comparison) -> str:
    """A line a metric and run: mean, inter-quartile mean and interval of its group, and its own value."""
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
    """Runs that cannot be read or failed, with the reason, and runs that leave their group, with the iteration."""
    for line in comparison.unreadable:
        yield f"left out: {line}"
    for run in comparison.failed:
        yield f"{run.run_id} (seed {run.seed}) {run.status}" + (f": {run.error}" if run.error else "")
    for one in comparison.leaving:
        value = "not finite" if one.value is None else words(one.value)
        where = f"leaves its group at iteration {one.iteration}"
        back = "" if one.back is None else f", back at {one.back}"
        yield f"{one.run_id} (seed {one.seed}) {where}{back}: {one.metric} is {value}"


def curves_chart(comparison: Comparison) -> Chart:
    """The drawn metrics of all runs, a colour a seed, a kind of line a group; crosses where a run leaves its group."""
    runs, styles = comparison.runs, run_styles(comparison.groups)
    drawn = [panel for panel in DRAWN if any(panel[0] in run.curves for run in runs)]
    chart = make_subplots(
        rows=max(1, (len(drawn) + 1) // 2),
        cols=2,
        subplot_titles=[title for _, title, _ in drawn],
        vertical_spacing=0.16,
        horizontal_spacing=0.09,
    )
    for number, (name, _, unit) in enumerate(drawn):
        place = {"row": number // 2 + 1, "col": number % 2 + 1}
        for run, style in zip(runs, styles, strict=True):
            for line in _lines(run, style, name):
                chart.add_trace(line, **place)
        chart.add_trace(_crosses(runs, [one for one in comparison.leaving if one.metric == name]), **place)
        chart.update_xaxes(title_text="iteration", **place)
        chart.update_yaxes(title_text=unit, **place)
    named: set[str] = set()
    for line in chart.data:  # one entry a run, wherever it was drawn first
        line.showlegend = line.legendgroup not in {*named, None}
        named |= {line.legendgroup or ""}
    chart.update_annotations(font_size=13)
    chart.update_layout(
        height=380 * max(1, (len(drawn) + 1) // 2) + 60,
        template="plotly_white",
        hovermode="x unified",
        modebar_orientation="v",
        legend={"orientation": "h", "y": 1.08, "yanchor": "bottom"},
        margin={"t": 120, "l": 60, "r": 20},
    )
    return chart


def accuracy_chart(comparison: Comparison) -> Chart:
    """Each run that finished: how accurate its reward model was, and how often its policy wins."""
    shown = [
        (run, style)
        for run, style in zip(comparison.runs, run_styles(comparison.groups), strict=True)
        if run.status == "finished"
    ]
    chart = Chart(
        Scatter(
            x=[run.last(ACCURACY) for run, _ in shown],
            y=[run.last(WIN_RATE) for run, _ in shown],
            text=[f"seed {run.seed}" for run, _ in shown],
            hovertext=[f"{run.run_id}, {style.label}" for run, style in shown],
            mode="markers+text",
            textposition="top center",
            cliponaxis=False,
            marker={
                "size": 11,
                "color": [style.colour for _, style in shown],
                "symbol": [style.symbol for _, style in shown],
            },
        )
    )
    chart.update_layout(
        height=380,
        template="plotly_white",
        margin={"t": 40, "l": 60, "r": 60},
        xaxis={"title": f"reward model: accuracy on held-out pairs ({ACCURACY})", "tickformat": ".1%"},
        yaxis={"title": f"win rate at the end ({WIN_RATE})", "tickformat": ".1%"},
    )
    return chart


def thinned(curve: Curve) -> Curve:
    """At most MAX_POINTS points: of each stretch its lowest and its highest, so that no spike is lost."""
    if len(curve.steps) <= MAX_POINTS:
        return curve
    pieces = np.array_split(np.arange(len(curve.steps)), MAX_POINTS // 2)
    filled = [np.where(np.isnan(curve.values[piece]), -np.inf, curve.values[piece]) for piece in pieces]
    ends = [(piece[part.argmin()], piece[part.argmax()]) for piece, part in zip(pieces, filled, strict=True)]
    kept = np.unique(np.array(ends))
    return Curve(steps=curve.steps[kept], values=curve.values[kept])


def _lines(run: RunCurves, style: RunStyle, name: str) -> Iterator[Scatter]:
    """The curve; with the scores, what the reward model has seen at most, too."""
    label = style.label if run.status == "finished" else f"{style.label} ({run.status})"
    about = {"name": label, "legendgroup": run.run_id, "mode": "lines"}
    if name in run.curves:
        curve = thinned(run.curves[name])
        mode = "lines+markers" if len(curve.steps) < FEW_POINTS else "lines"
        line = {"color": style.colour, "dash": style.dash}
        # infinities have no place on an axis
        heights = np.where(np.isfinite(curve.values), curve.values, np.nan)
        yield Scatter(x=curve.steps, y=heights, line=line, **(about | {"mode": mode}))
    ceiling = run.last(CEILING)
    if name == SCORES and name in run.curves and ceiling is not None:
        ends = run.curves[name].steps[[0, -1]].tolist()
        thin = {"color": style.colour, "dash": "dash", "width": 1}
        yield Scatter(x=ends, y=[ceiling, ceiling], line=thin, opacity=0.6, **(about | {"name": f"{label}: seen"}))


def _crosses(runs: Sequence[RunCurves], left: Sequence[Leaving]) -> Scatter:
    """Where runs leave their group; one that is not finite there, at its newest value that was."""
    curves = {run.run_id: run.curves for run in runs}
    heights = [
        one.value if one.value is not None else curves[one.run_id][one.metric].before(one.iteration) for one in left
    ]
    return Scatter(
        x=[one.iteration for one in left],
        y=heights,
        text=[f"seed {one.seed}" for one in left],
        hovertext=[f"seed {one.seed} leaves its group at iteration {one.iteration}" for one in left],
        mode="markers+text",
        textposition="top center",
        textfont={"color": RED},
        marker={"symbol": "x", "size": 11, "color": RED},
        name="leaves its group",
    )


def _warnings(comparison: Comparison) -> Iterator[str]:
    for line in warnings(comparison):
        yield f'<p class="bad">{escape(line)}</p>'


def _tables(comparison: Comparison) -> Iterator[str]:
    yield f"<p>{SAID}</p>"
    for group in comparison.groups:
        head = ["metric", "mean", "IQM", "95 % interval", *(f"seed {run.seed}" for run in group.runs)]
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


def correlation_words(found: Correlation | None) -> str:
    """What is known about reward models and results, in a sentence."""
    if found is None:
        return "The reward models' accuracy and the final win rates: too few finished runs, or no spread, to correlate."
    return (
        f"The reward models' accuracy and the final win rates: correlation {found.pearson:+.2f} over {found.pairs} "
        f"finished runs (p = {found.p_value:.2g})."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f'<div class="wide"><table>{line(head, "th")}{"".join(line(row, "td") for row in rows)}</table></div>'
