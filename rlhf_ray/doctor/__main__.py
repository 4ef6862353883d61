"""python -m rlhf_ray.doctor PATH...   what is wrong with these runs, and what to do

Exit code: 0 healthy, 1 warnings, 2 critical, 3 a path cannot be read or an option is wrong (the highest of all paths).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rlhf_ray.doctor.examine import examine_run
from rlhf_ray.doctor.findings import Diagnosis, Severity
from rlhf_ray.doctor.names import parse_map
from rlhf_ray.doctor.program import run_program
from rlhf_ray.doctor.readers.detect import read_log
from rlhf_ray.doctor.report import as_json, as_text
from rlhf_ray.doctor.rules import Rules, load_rules
from rlhf_ray.errors import RlhfRayError

HEALTHY, WARNINGS, CRITICAL, UNREADABLE = 0, 1, 2, 3


class _Parser(argparse.ArgumentParser):
    """2 means critical here, so a wrong option is 3."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(UNREADABLE, f"error: {message}\n")


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    try:
        rules = None if options.rules is None else load_rules(options.rules)
        given = parse_map(options.map)
    except RlhfRayError as error:
        sys.stderr.write(f"error: {error}\n")
        return UNREADABLE
    if options.html is not None:
        return _write_page(options.paths, options.html, rules, given)
    results = [_examined(path, rules, given) for path in options.paths]
    readable = [result for result in results if isinstance(result, Diagnosis)]
    if options.json:
        sys.stdout.write(json.dumps([as_json(result) for result in readable], ensure_ascii=False, indent=2) + "\n")
    else:
        width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
        sys.stdout.write("\n".join(as_text(result, width=width) for result in readable))
    for result in results:
        if isinstance(result, RlhfRayError):
            sys.stderr.write(f"error: {result}\n")
    return max(_code(result) for result in results)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m rlhf_ray.doctor", description="Says what is wrong with an RLHF run.")
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a run's directory or a log; see docs/doctor.md"
    )
    parser.add_argument("--map", action="append", default=[], metavar="THEIRS=OURS", help="what a column is")
    parser.add_argument(
        "--rules", type=Path, help="YAML or JSON with thresholds of your own; left out: those that the run used itself"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="machine-readable")
    form.add_argument("--html", type=Path, metavar="FILE", help="write the page of one path, with its curves")
    return parser


def _write_page(paths: Sequence[Path], output: Path, rules: Rules | None, given: dict[str, str]) -> int:
    from rlhf_ray.report.page import write_report  # noqa: PLC0415  the page's libraries only for a page

    if len(paths) > 1:
        sys.stderr.write(
            f"error: --html {output} is the page of one PATH, and {len(paths)} are given; several runs on one page: "
            "python -m rlhf_ray.compare\n"
        )
        return UNREADABLE
    try:
        result = write_report(paths[0], output, rules=rules, given=given)
    except RlhfRayError as error:
        sys.stderr.write(f"error: {error}\n")
        return UNREADABLE
    except OSError as error:
        sys.stderr.write(f"error: {output} cannot be written ({error.strerror or error})\n")
        return UNREADABLE
    for note in result.notes:
        sys.stderr.write(f"note: {note}\n")
    sys.stdout.write(f"{output}\n")
    return _code(result)


def _examined(path: Path, rules: Rules | None, given: dict[str, str]) -> Diagnosis | RlhfRayError:
    try:
        return examine_run(read_log(path, given), rules)
    except RlhfRayError as error:
        return error


def _code(result: Diagnosis | RlhfRayError) -> int:
    if isinstance(result, RlhfRayError):
        return UNREADABLE
    return {None: HEALTHY, Severity.WATCH: HEALTHY, Severity.WARNING: WARNINGS, Severity.CRITICAL: CRITICAL}[
        result.severity
    ]


if __name__ == "__main__":
    sys.exit(run_program(main, sys.argv[1:]))
