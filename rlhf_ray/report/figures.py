"""Curves as Plotly figures: dicts of data and layout, drawn by page.js."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from rlhf_ray.doctor.findings import Finding, Severity
from rlhf_ray.doctor.runlog import Floats, Series
from rlhf_ray.report.chart_table import BLUE, GREEN, ORANGE, Chart, Line

Figure = dict[str, Any]
MAX_POINTS = 1500  # of a curve; longer ones keep the extremes of equal stretches
BINS = 40
SEVERITY_COLORS = {Severity.WATCH: "#64748b", Severity.WARNING: "#d97706", Severity.CRITICAL: "#dc2626"}
_FEW_STEPS = 8  # a mark at each; else the axis would be marked at halves of steps
_CEILING_COLOR = "#9ca3af"


def chart_figure(
    chart: Chart, series: Mapping[str, Series], findings: Sequence[Finding], *, ceiling: float | None, step_word: str
) -> Figure | None:
    """A chart with the findings whose evidence it shows; None where nothing of it was measured."""
    lines = [line for line in chart.lines if line.metric in series and series[line.metric].size]
    if not lines:
        return None
    traces = [*_band(chart, series), *(_trace(line, series[line.metric]) for line in lines)]
    shown = {line.metric: line for line in lines}
    last = max(float(series[metric].steps[-1]) for metric in shown)
    marks = [mark for finding in findings for mark in _marks(finding, shown, series)]
    layout: Figure = {
        "xaxis": {"title": {"text": step_word}, **({"dtick": 1} if last <= _FEW_STEPS else {})},
        "yaxis": {"title": {"text": chart.unit}},
        "shapes": [_shade(finding, last) for finding in findings if _touches(finding, shown)],
    }
    if any(line.right for line in lines):
        layout["yaxis2"] = _right_axis(chart)
    if chart.ceiling and ceiling is not None:
        layout["shapes"].append(_level(ceiling))
        layout["annotations"] = [_level_label(ceiling, "ceiling: best held-out answers")]
    return {"data": traces + marks, "layout": layout}


def overoptimization_figure(series: Mapping[str, Series]) -> Figure | None:
    """Proxy and gold score of the held-out prompts over the distance d = sqrt(KL) (Gao et al. 2022)."""
    kl = series.get("eval/kl")
    drawn = [
        (metric, label, color)
        for metric, label, color in (
            ("eval/proxy_score", "reward model (proxy)", ORANGE),
            ("eval/gold_score", "gold", GREEN),
        )
        if metric in series and kl is not None and kl.size > 1
    ]
    if kl is None or len(drawn) < 2:
        return None
    distance = Series(steps=kl.steps, values=np.sqrt(np.maximum(kl.values, 0.0)))
    traces = []
    for metric, label, color in drawn:
        own = series[metric]
        places = distance.at(own.steps)
        known = np.isfinite(places)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label,
                "x": numbers(places[known]),
                "y": numbers(own.values[known]),
                "customdata": numbers(own.steps[known]),
                "hovertemplate": "iteration %{customdata}<br>distance %{x:.2f}<br>%{y:.3f}<extra>" + label + "</extra>",
                "line": {"color": color},
            }
        )
    layout = {
        "xaxis": {"title": {"text": "distance from the start, sqrt(KL)"}},
        "yaxis": {"title": {"text": "score"}},
        "hovermode": "closest",
    }
    return {"data": traces, "layout": layout}


def histogram_figure(scores: Mapping[int, Floats]) -> Figure | None:
    """The share of answers in each bin of the score, by iteration. The outermost bins hold what lies beyond."""
    values = [known[np.isfinite(known)] for known in scores.values()]
    everything = np.concatenate(values) if values else np.zeros(0)
    if not everything.size:
        return None
    low, high = np.quantile(everything, [0.002, 0.998])
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    counts = np.array([np.histogram(np.clip(known, edges[0], edges[-1]), bins=edges)[0] for known in values])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    trace = {
        "type": "heatmap",
        "x": list(scores),
        "y": numbers((edges[:-1] + edges[1:]) / 2),
        "z": [numbers(column) for column in shares.T],
        "colorscale": [[0, "#ffffff"], [0.15, "#d3e5f2"], [0.5, "#5aa2d0"], [1, "#083d66"]],
        "colorbar": {"title": {"text": "share"}, "thickness": 10, "outlinewidth": 0, "tickformat": ".0%"},
        "hovertemplate": "iteration %{x}<br>score %{y:.2f}<br>%{z:.1%} of answers<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "iteration"}},
        "yaxis": {"title": {"text": "score"}},
        "hovermode": "closest",
    }
    return {"data": [trace], "layout": layout}


def numbers(values: Floats) -> list[float | None]:
    """For JSON: four digits more than a screen shows, None for what is not finite."""
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in values]


def thinned(series: Series) -> Series:
    """Up to MAX_POINTS points: the smallest and the largest of each of equal stretches, in order."""
    if series.size <= MAX_POINTS:
        return series
    parts = np.array_split(np.arange(series.size), MAX_POINTS // 2)
    kept = sorted({int(part[pick(series.values[part])]) for part in parts for pick in (np.argmin, np.argmax)})
    return Series(steps=series.steps[kept], values=series.values[kept])


def _trace(line: Line, series: Series) -> Figure:
    points = thinned(series)
    alone = points.size == 1
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers" if line.dots or alone else "lines",
        "name": line.label,
        "x": numbers(points.steps),
        "y": numbers(points.values),
        "line": {"color": line.color, "width": 1.5 if line.dots else 2, "dash": "dot" if line.dash else "solid"},
        "marker": {"size": 6},
        "hovertemplate": "%{y:.4g}",
    }
    if line.right:
        trace["yaxis"] = "y2"
    if line.stack:
        trace |= {"stackgroup": "all", "line": {"color": line.color, "width": 0.5}}
    return trace


def _right_axis(chart: Chart) -> Figure:
    return {
        "title": {"text": chart.right_unit},
        "overlaying": "y",
        "side": "right",
        "showgrid": False,
        "zeroline": False,
        "rangemode": "tozero",
        "tickmode": "auto",  # round numbers, not those that fall on the left axis' grid
        "nticks": 6,
    }


def _band(chart: Chart, series: Mapping[str, Series]) -> list[Figure]:
    if chart.band is None or chart.band[0] not in series or chart.band[1] not in series:
        return []
    low, high, label = chart.band
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": BLUE}, "hoverinfo": "skip"}
    lower, upper = thinned(series[low]), thinned(series[high])
    return [
        edge | {"x": numbers(lower.steps), "y": numbers(lower.values), "showlegend": False, "name": label},
        edge
        | {
            "x": numbers(upper.steps),
            "y": numbers(upper.values),
            "fill": "tonexty",
            "fillcolor": "rgba(0,114,178,0.13)",
            "name": label,
        },
    ]


def _touches(finding: Finding, shown: Mapping[str, Line]) -> bool:
    return finding.severity > Severity.WATCH and any(item.metric in shown for item in finding.evidence)


def _marks(finding: Finding, shown: Mapping[str, Line], series: Mapping[str, Series]) -> list[Figure]:
    """A diamond on the curve where the finding begins."""
    found = []
    for item in finding.evidence:
        if item.metric not in shown:
            continue
        value = series[item.metric].at(np.array([finding.first_step]))
        mark: Figure = {
            "type": "scatter",
            "mode": "markers",
            "name": f"{finding.severity.word}: {escape(finding.phrase)}",
            "x": [finding.first_step],
            "y": numbers(value),
            "marker": {
                "symbol": "diamond",
                "size": 11,
                "color": SEVERITY_COLORS[finding.severity],
                "line": {"color": "#ffffff", "width": 1.5},
            },
            "hovertemplate": f"{escape(finding.phrase)}<extra>{finding.severity.word}</extra>",
            "meta": "finding",
            "showlegend": False,
        }
        if shown[item.metric].right:
            mark["yaxis"] = "y2"
        found.append(mark)
    return found


def _shade(finding: Finding, last: float) -> Figure:
    """From the finding's first step to where it was over, or to the end."""
    return {
        "type": "rect",
        "yref": "paper",
        "x0": finding.first_step,
        "x1": last if finding.until is None else finding.until,
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": SEVERITY_COLORS[finding.severity],
        "opacity": 0.05,
        "layer": "below",
    }


def _level(value: float) -> Figure:
    line = {"color": _CEILING_COLOR, "width": 1.5, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def _level_label(value: float, text: str) -> Figure:
    return {
        "xref": "paper",
        "x": 0,
        "y": value,
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 10, "color": "#6b7280"},
    }
