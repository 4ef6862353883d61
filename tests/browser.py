"""Pages in headless Chromium, without network."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    "--window-size=1280,2000",
)
SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)


@dataclass(frozen=True)
class Visit:
    """What a page became, and what it told the console."""

    dom: str  # without the scripts
    console: list[str]

    @property
    def drawn(self) -> int:
        """How many figures page.js drew."""
        found = re.search(r'data-drawn="(\d+)"', self.dom)
        return int(found[1]) if found else 0


def visit(page: Path, profile: Path) -> Visit:
    """Open the page; `profile` is a folder of its own for the browser."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Visit(dom=SCRIPT.sub("", done.stdout), console=console)
