"""How many runs are told apart: a colour a seed, a kind of line and of point a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlhf_ray.tracking.comparison import Group

# Okabe & Ito's palette, told apart with any colour vision
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
SEED_COLOURS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY)
RED, GREY = "#b00020", "#555555"  # what is wrong, what is no run's
# names of Plotly's; further groups begin again
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStyle:
    """One run's."""

    colour: str
    dash: str
    symbol: str
    label: str


def run_styles(groups: Sequence[Group]) -> list[RunStyle]:
    """Of each run, in the order of the groups. Colours and lines come round again where there are too many."""
    seeds = sorted({run.seed for group in groups for run in group.runs})
    return [
        RunStyle(
            colour=SEED_COLOURS[seeds.index(run.seed) % len(SEED_COLOURS)],
            dash=_DASHES[number % len(_DASHES)],
            symbol=_SYMBOLS[number % len(_SYMBOLS)],
            label=f"seed {run.seed}" + (f", {group.name}" if len(groups) > 1 else ""),
        )
        for number, group in enumerate(groups)
        for run in group.runs
    ]
