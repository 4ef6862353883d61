"""The page as a browser draws it. CI has Chromium; `make browser` installs it."""

import re
from pathlib import Path

import pytest
from browser import CHROMIUM, Visit, visit
from made_runs import write_sick_run

from rlhf_ray.report.page import write_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: make browser installs it"),
]
CRITICAL = re.compile(r'class="point"[^>]*fill: rgb\(220, 38, 38\)')


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Visit:
    """A made sick run whose every text tries to run a script."""
    folder = tmp_path_factory.mktemp("browser")
    text = "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    run = write_sick_run(folder / "sick", text=text)
    write_report(run, folder / "report.html")
    return visit(folder / "report.html", folder / "profile")


def test_the_console_stays_empty(seen: Visit):
    assert seen.console == []


def test_every_plot_is_drawn(seen: Visit):
    assert seen.drawn == len(re.findall(r'class="plot[ "]', seen.dom)) > 6
    assert len(re.findall(r'<svg[^>]*class="main-svg"', seen.dom)) >= seen.drawn


def test_findings_are_cards_and_points_on_the_curves(seen: Visit):
    assert 'id="finding-1"' in seen.dom
    assert len(CRITICAL.findall(seen.dom)) > 0


def test_no_text_of_the_run_was_run(seen: Visit):
    assert re.search(r"<title>(.*?)</title>", seen.dom)[1] == "sick: report"
    assert "<img" not in seen.dom


def test_a_real_run_is_drawn_without_a_word_on_the_console(finished_run: Path, tmp_path: Path):
    real = visit(finished_run / "report.html", tmp_path / "profile")
    assert real.console == []
    assert real.drawn > 12
    assert 'id="answers"' in real.dom


def test_a_broken_page_would_be_noticed(tmp_path: Path):
    page = tmp_path / "broken.html"
    page.write_text("<!DOCTYPE html><title>broken</title><script>thereIsNoSuchFunction()</script>")
    broken = visit(page, tmp_path / "profile")
    assert any("thereIsNoSuchFunction" in line for line in broken.console)
    assert broken.drawn == 0
