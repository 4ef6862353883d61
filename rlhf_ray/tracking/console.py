"""Where programs print their tables."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 160  # characters, where the output is no terminal: paths are there to be copied


def table_console() -> Console:
    """On standard output, as wide as the terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)
