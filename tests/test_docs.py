"""Pages made from the code are up to date, and what the guides name is there."""

import re
from pathlib import Path

import pytest

from rlhf_ray.config.reference import reference
from rlhf_ray.doctor.page import doctor_page
from rlhf_ray.errors import MetricError
from rlhf_ray.tracking.metrics_page import metrics_page
from rlhf_ray.tracking.registry import describe

ROOT = Path(__file__).parent.parent
GUIDES = ("README.md", "CONTRIBUTING.md", "docs/algorithm.md", "docs/weight-sync.md")
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
ELSEWHERE = ("/", "outputs/", "artifacts/", "rollouts/", "samples/", "checkpoints/")  # machine, run directory
CITATION = re.compile(r"([A-Z][a-zé]+)(?: and [A-Z]\w+| et al\.)? ((?:19|20)\d{2})\b")


def missing(text: str) -> list[str]:
    """Files in backticks that exist neither from the root nor in the package; those with NAME or * are patterns.

    What looks like a file may be a metric.
    """
    named = re.findall(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:py|md|toml|yaml|lock))`", text)
    given = [name for name in named if "NAME" not in name and not name.startswith(ELSEWHERE)]
    files = [name for name in given if not is_metric(name)]
    return [name for name in files if not ((ROOT / name).exists() or (ROOT / "rlhf_ray" / name).exists())]


def is_metric(name: str) -> bool:
    try:
        describe(name)
    except MetricError:
        return False
    return True


def test_configuration_page_is_up_to_date() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == reference(), "run: make docs"


def test_doctor_page_is_up_to_date() -> None:
    assert (ROOT / "docs/doctor.md").read_text(encoding="utf-8") == doctor_page(), "run: make docs"


def test_metrics_page_is_up_to_date() -> None:
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics_page(), "run: make docs"


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_names_is_there(guide: str) -> None:
    assert missing((ROOT / guide).read_text(encoding="utf-8")) == []


def test_a_missing_file_is_noticed() -> None:
    assert missing("`loops/ppo.py`, `loops/nothing.py`, `nowhere/`, `NAME.yaml`, `objective/kl`, `objective/k`") == [
        "loops/nothing.py",
        "nowhere/",
        "objective/k",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_or_a_heading(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not leads_somewhere(link, ROOT / page)] == []


def leads_somewhere(link: str, page: Path) -> bool:
    path, _, heading = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not heading or heading in anchors(target.read_text(encoding="utf-8")))


def anchors(text: str) -> set[str]:
    """Headings as links name them: lower case, spaces as hyphens, punctuation left out."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_paper_that_the_code_names_is_in_the_list_of_sources() -> None:
    sources = (ROOT / "docs/algorithm.md").read_text(encoding="utf-8").partition("## 12. Sources")[2]
    listed = set(CITATION.findall(sources))
    cited = {
        (name, year, path.name)
        for path in (ROOT / "rlhf_ray").rglob("*.py")
        for name, year in CITATION.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert sorted(item for item in cited if item[:2] not in listed) == []
