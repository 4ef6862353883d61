"""How a program that reads and tells ends: with its exit code, never with a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper

INTERRUPTED, NOT_READ_ON = 130, 141  # as shells count SIGINT and SIGPIPE


def run_program(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """The exit code of `main`; also where Ctrl-C ends it, or nobody reads its output to the end."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files and columns may hold anything
    try:
        code = main(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return NOT_READ_ON
    return code
