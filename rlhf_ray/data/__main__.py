"""python -m rlhf_ray.data check FILE... : what these files would train on, before anything is trained.

Exit code 0: every row can be used; 1: some cannot; 2: a file cannot be read at all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.check import Example, FileCheck, Plan, check_file
from rlhf_ray.data.guess import KINDS, Kind, guess_kind
from rlhf_ray.data.layout import CHATS, layout_of
from rlhf_ray.data.read import listing
from rlhf_ray.data.render import require_template
from rlhf_ray.data.tokenizer import load_tokenizer, special_tokens
from rlhf_ray.errors import DataError

NUM_EXAMPLES, NUM_SHARED = 5, 5
PERCENTILES = {"least": 0, "half": 50, "90 %": 90, "99 %": 99, "most": 100}
COLUMNS = ("prompt", "response", "chosen", "rejected", "messages", "completions", "labels")


def main(arguments: Sequence[str]) -> int:
    """See the module. Returns the exit code."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # data sets come from this machine: a missing one is told at once
    options = _parser().parse_args(arguments)
    console = Console()
    checks = []
    try:
        plan = _plan(options)
        for file in options.files:
            checks.append(_checked(Path(file), plan, console, kind=options.kind))
    except DataError as error:
        console.print(Text(str(error), style="red"))
        return 2
    for first, second in permutations(checks, 2):
        common = first.training & second.held_out
        if common:
            console.print(f"{len(common)} prompts trained on in {first.path} are held out in {second.path}")
    return 1 if any(check.report.num_skipped for check in checks) else 0


def _checked(file: Path, plan: Plan, console: Console, *, kind: Kind | None) -> FileCheck:
    """Print what is found in a file; what its rows were taken for stands above, and above its error, too."""
    if kind is None:
        guess = guess_kind(file, plan.layout)
        kind, taken_for = guess.kind, f"{guess.kind}, guessed, for {guess.reason} (--kind to change)"
    else:
        taken_for = kind
    console.print(Text(f"\n{file}: {taken_for}", style="bold"))
    check = check_file(file, plan, kind=kind)
    console.print(Group(*_blocks(check, "characters" if plan.tokenizer is None else "tokens")))
    return check


def _parser() -> argparse.ArgumentParser:
    data = DataConfig()
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.data", description="Look at data files.")
    check = parser.add_subparsers(required=True, metavar="check").add_parser("check", help="what would be trained on")
    check.add_argument("files", nargs="+", metavar="FILE", help="JSON Lines, Parquet, Arrow or hf:NAME:SPLIT")
    check.add_argument("--kind", choices=KINDS, help="what the rows are (default: guessed from the first ones)")
    check.add_argument("--format", choices=("plain", "chat", "instruction", "tldr"), default=data.format)
    check.add_argument("--model", type=Path, help="model directory whose tokenizer and chat template are used")
    check.add_argument("--loss-on", choices=("answer", "assistant", "all"), default="answer", help="sft.loss_on")
    check.add_argument("--system-prompt", help="data.system_prompt")
    check.add_argument("--held-out-share", type=float, default=data.held_out_share, help="data.held_out_share")
    check.add_argument("--seed", type=int, default=1, help="seed of the split, as in the run")
    for name in COLUMNS:
        check.add_argument(f"--{name}-column", default=getattr(data, f"{name}_column"), help=f"data.{name}_column")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    columns = {f"{name}_column": getattr(options, f"{name}_column") for name in COLUMNS}
    layout = layout_of(DataConfig(format=options.format, system_prompt=options.system_prompt, **columns))
    tokenizer = None
    if options.model is not None:
        layout = replace(layout, special_tokens=special_tokens(options.model))
        tokenizer = load_tokenizer(options.model)
        if options.format in CHATS:
            require_template(tokenizer)
    return Plan(
        layout=layout,
        tokenizer=tokenizer,
        loss_on=options.loss_on,
        held_out_share=options.held_out_share,
        seed=options.seed,
        num_examples=NUM_EXAMPLES,
    )


def _blocks(check: FileCheck, unit: str) -> Iterator[RenderableType]:
    table = Table(show_header=False)
    table.add_row("usable rows", str(check.report.kept))
    table.add_row("rows that cannot be used", str(check.report.num_skipped))
    table.add_row("rows that ask what an earlier one asked", str(check.num_repeated))
    table.add_row("held-out prompts that are trained on, too", str(len(check.shared)))
    yield table
    yield _lengths(check, unit)
    if check.report.faults:
        yield Text(listing(check.report).removeprefix("\n"), style="red")
    for training, held_out in check.shared[:NUM_SHARED]:
        yield Text(f"  rows {training} (trained on) and {held_out} (held out) have the same prompt", style="yellow")
    yield Text("as a model reads them; green: trained on, or scored")
    for example in check.examples:
        yield _panel(example)


def _lengths(check: FileCheck, unit: str) -> Table:
    """The limits that a run needs are the most of each row."""
    end = ", end token included" if unit == "tokens" else ""
    table = Table(unit, *PERCENTILES)
    for name, lengths in (("prompts", check.prompt_lengths), (f"answers{end}", check.answer_lengths)):
        if len(lengths):
            table.add_row(name, *(f"{value:.0f}" for value in np.percentile(lengths, list(PERCENTILES.values()))))
    return table


def _panel(example: Example) -> Panel:
    text = Text()
    for piece in example.pieces:
        text.append(piece.text, style="green" if piece.trained else "")
    answer = "" if example.answer is None else f", {example.answer}"
    return Panel(text, title=Text(f"row {example.row_id}{answer}"), title_align="left")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
