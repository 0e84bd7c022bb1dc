"""`doctor`: the cause and the fix of a failed start; offline, but for its bundle."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sparkfleet.cli.command import command
from sparkfleet.cli.options import CLUSTER, OUTPUT, Options, option, parse_path

WITH_VALUE = frozenset(
    {"--output", "--log", "--bundle", "--inventory", "-i", "--set", "-e", "--cluster"}
)


def has_log_argument(argv: Sequence[str]) -> bool:
    """Return whether a command line names a log after `doctor`."""
    after = argv[argv.index("doctor") :] if "doctor" in argv else ()
    return any(
        word == "-" or not word.startswith("-")
        for before, word in pairwise(after)
        if before not in WITH_VALUE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(Options):
    """Options of `doctor`."""

    # invoke has no optional positional argument, so LOG is positional only where it is typed.
    log: str | None = option(
        "a log, a folder of logs, or - for standard input; by default the newest failed run",
        positional=has_log_argument(sys.argv),
        value="[FILE]",
    )
    bundle: Path | None = option(
        "write logs, facts, rendered files, versions and events into this .tar.gz, redacted, for a "
        "report; with --inventory also from the hosts",
        parse_path,
        value="FILE",
    )


@command("doctor", OUTPUT, CLUSTER, help={"inventory": "only for --bundle: also ask these hosts"})
def doctor(options: DoctorOptions) -> int:
    """Diagnose a failed start from its logs; only --bundle connects to hosts.

    Reads what `cluster.up` saved of your newest run that failed, or a LOG of your own: a file, a
    folder with those of several hosts, or - for standard input. Every cause comes with its host,
    the line that shows it, what to do, and who has met it; the first cause is the first to read.
    Where no signature matches the failure, it says so and shows each host's first error. Exits with
    0 whatever it finds, with 5 if the log cannot be read.

      {task:doctor}
      {task:doctor} ~/.local/state/sparkfleet/runs/20261128-054105-32029
      docker logs vllm 2>&1 | {task:doctor} -
      {task:doctor} --bundle report.tar.gz --inventory inventories/pair.yml
    """
    if options.bundle is not None:
        from sparkfleet.cli.doctor.bundle import write_bundle

        return write_bundle(options.bundle, options.log, options)
    from sparkfleet.cli.doctor.view import show_diagnosis

    return show_diagnosis(options.log, options)
