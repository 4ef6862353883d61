"""Pages made from the code are up to date, and what the guides name is there."""

import re
from pathlib import Path

import pytest

from rlhf_ray.config.reference import reference
from rlhf_ray.tracking.metrics_page import metrics_page

ROOT = Path(__file__).parent.parent
GUIDES = ("README.md", "CONTRIBUTING.md")


def missing(text: str) -> list[str]:
    """Files in backticks that exist neither from the root nor in the package; those with NAME or * are patterns."""
    named = re.findall(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:py|md|toml|yaml|lock))`", text)
    given = [name for name in named if "NAME" not in name and not name.startswith(("/", "outputs/"))]
    return [name for name in given if not ((ROOT / name).exists() or (ROOT / "rlhf_ray" / name).exists())]


def test_configuration_page_is_up_to_date() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == reference(), "run: make docs"


def test_metrics_page_is_up_to_date() -> None:
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics_page(), "run: make docs"


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_names_is_there(guide: str) -> None:
    assert missing((ROOT / guide).read_text(encoding="utf-8")) == []


def test_a_missing_file_is_noticed() -> None:
    assert missing("`loops/ppo.py`, `loops/nothing.py`, `nowhere/`, `NAME.yaml`") == ["loops/nothing.py", "nowhere/"]
