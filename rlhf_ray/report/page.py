"""report.html: one file with everything in it, Plotly included."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from plotly.offline import get_plotlyjs

from rlhf_ray.doctor.checks.case import CEILING
from rlhf_ray.doctor.findings import Diagnosis, Finding
from rlhf_ray.doctor.report import as_json, finite_only
from rlhf_ray.doctor.rules import Rules
from rlhf_ray.files.atomic import write_text_atomic
from rlhf_ray.report import views
from rlhf_ray.report.chart_table import CHARTS, STAGE_TITLES, STEP_WORDS
from rlhf_ray.report.figures import Figure, chart_figure, histogram_figure, overoptimization_figure
from rlhf_ray.report.material import Curves, Material, read_material

REPORT_FILE = "report.html"
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A chart of the page."""

    title: str
    figure: int  # place in the list of figures


def write_report(
    path: Path, output: Path, *, rules: Rules | None = None, given: Mapping[str, str] | None = None
) -> Diagnosis:
    """Read a run directory, or any log that the doctor reads, write its page, and tell the diagnosis.

    `rules` left out: those that the run used itself, else the built-in ones. Raises DataError for what cannot be read
    as metrics, ConfigError for rules of the run that no longer fit, OSError where the page cannot be written.
    """
    material = read_material(path, rules, given or {})
    write_text_atomic(output, report_page(material))
    return material.diagnosis


def report_page(material: Material) -> str:
    """The page as HTML. All text of the run is escaped by the template; figures are JSON in a script of their own."""
    findings = views.all_findings(material)
    figures: list[Figure] = []
    sections = [
        (stage, STAGE_TITLES.get(stage, stage), list(_panels(material, stage, findings, figures)))
        for stage in material.curves
        if stage in CHARTS
    ]
    further = list(_further(material, figures))
    script, library = (_FOLDER / "page.js").read_text(encoding="utf-8"), get_plotlyjs()
    page: str = _template().render(
        name=material.name,
        run=material.run,
        diagnosis=material.diagnosis,
        severity=as_json(material.diagnosis)["severity"],
        tiles=list(views.tiles(material.summary)),
        tracks=list(views.tracks(material.diagnosis, material.curves, findings, material.actions)),
        findings=findings,
        opened=views.opened(findings),
        still_there=len(material.diagnosis.findings),
        actions=material.actions,
        sections=[section for section in sections if section[2]],
        further=further,
        histories=views.histories(material.samples),
        shown_prompts=views.SHOWN_PROMPTS,
        settings=_settings(material),
        lineage=material.lineage,
        notes=(*material.diagnosis.notes, *material.notes),
        figures=finite_only(figures),
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        script=script,
        plotly=library,
        hashes=[_hash(library), _hash(script)],
    )
    return page


def _panels(material: Material, stage: str, findings: tuple[Finding, ...], figures: list[Figure]) -> Iterator[Panel]:
    ceiling = _ceiling(material.curves)
    for chart in CHARTS[stage]:
        figure = chart_figure(
            chart,
            material.curves[stage],
            [finding for finding in findings if finding.stage == stage],
            ceiling=ceiling,
            step_word=STEP_WORDS.get(stage, "step"),
        )
        if figure is not None:
            figures.append(figure)
            yield Panel(title=chart.title, figure=len(figures) - 1)


def _ceiling(curves: Curves) -> float | None:
    """The score ceiling that any stage recorded: PPO carries it along, whoever trained the reward model."""
    known = [stage[CEILING] for stage in curves.values() if CEILING in stage and stage[CEILING].size]
    return float(known[-1].values[-1]) if known else None


def _further(material: Material, figures: list[Figure]) -> Iterator[Panel]:
    for title, figure in (
        (
            "Proxy against gold over the distance from the start",
            overoptimization_figure(material.curves.get("ppo", {})),
        ),
        ("Scores of all answers over the iterations", histogram_figure(material.scores)),
    ):
        if figure is not None:
            figures.append(figure)
            yield Panel(title=title, figure=len(figures) - 1)


def _settings(material: Material) -> list[tuple[str, Any]]:
    config = material.run.get("config")
    if isinstance(config, dict):
        return list(views.flat(config))
    return list(material.diagnosis.settings.items())


def _hash(script: str) -> str:
    """What the page's policy names the script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=ChainableUndefined,  # the records of a run may lack anything
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: "-" if value is None else f"{value:.4g}"
    environment.filters["clock"] = views.clock
    return environment.get_template("page.html.jinja")
