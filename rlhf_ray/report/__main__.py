"""python -m rlhf_ray.report RUN   writes RUN/report.html: what happened in a run, on one page

RUN is a run's directory; any other log that the doctor reads does too, its page is written beside it.
Exit code: 0, 2 where RUN cannot be read or the page not be written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlhf_ray.doctor.names import parse_map
from rlhf_ray.doctor.program import run_program
from rlhf_ray.doctor.rules import load_rules
from rlhf_ray.errors import RlhfRayError
from rlhf_ray.report.page import REPORT_FILE, write_report

WRITTEN, REFUSED = 0, 2


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.report", description="A run on one page.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a log; see docs/doctor.md")
    parser.add_argument("--output", type=Path, metavar="FILE", help="left out: report.html in, or beside, RUN")
    parser.add_argument("--map", action="append", default=[], metavar="THEIRS=OURS", help="what a column is")
    parser.add_argument(
        "--rules", type=Path, help="YAML or JSON with thresholds of your own; left out: those that the run used itself"
    )
    given = parser.parse_args(arguments)
    output = given.output or (given.run if given.run.is_dir() else given.run.parent) / REPORT_FILE
    try:
        rules = None if given.rules is None else load_rules(given.rules)
        diagnosis = write_report(given.run, output, rules=rules, given=parse_map(given.map))
    except RlhfRayError as error:
        sys.stderr.write(f"error: {error}\n")
        return REFUSED
    except OSError as error:
        sys.stderr.write(f"error: {output} cannot be written ({error.strerror or error})\n")
        return REFUSED
    for note in diagnosis.notes:
        sys.stderr.write(f"note: {note}\n")
    sys.stdout.write(f"{output}\n")
    return WRITTEN


if __name__ == "__main__":
    sys.exit(run_program(main, sys.argv[1:]))
