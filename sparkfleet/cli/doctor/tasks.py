"""`doctor`: the cause and the fix of a failed start; offline."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sparkfleet.cli.command import command


def has_log_argument(argv: Sequence[str]) -> bool:
    """Return whether a command line names a log behind `doctor`."""
    behind = argv[argv.index("doctor") :] if "doctor" in argv else ()
    return any(
        word == "-" or not word.startswith("-")
        for before, word in pairwise(behind)
        if before not in {"--output", "--log"}
    )


# invoke has no positional argument that may be left out, so that LOG is one where it is typed.
@command(
    positional=["log"] if has_log_argument(sys.argv) else [],
    help={"log": "a log, a folder of logs, or - for standard input; else the newest failed run"},
)
def doctor(context: Any, *, log: str | None = None, output: str | None = None) -> int:
    """Tell cause and fix of a failed start, from its logs; asks no host.

    Reads what `cluster.up` has saved of the newest run that failed, or a LOG of yours: a file, a
    folder with those of several hosts, or - for standard input. Every cause comes with its host,
    the line that shows it, what to do, and who has met it; the first cause is the first to read.
    Where no signature knows the failure it says so, and shows each host's first error. Ends with
    0 whatever it finds, with 5 where it cannot read.

      {task:doctor}
      {task:doctor} ~/.local/state/sparkfleet/runs/20261128-054105-32029
      docker logs vllm 2>&1 | {task:doctor} -
    """
    from sparkfleet.cli.doctor.view import show_diagnosis  # noqa: PLC0415 - the same
    from sparkfleet.cli.options import parse_options  # noqa: PLC0415 - not for --list

    return show_diagnosis(log, parse_options("doctor", locals()))
