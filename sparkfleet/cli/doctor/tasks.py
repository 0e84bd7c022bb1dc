"""`doctor`: the cause and the fix of a failed start; offline, but for its bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.command import command
from sparkfleet.cli.command_line import is_argument_typed
from sparkfleet.cli.options import CLUSTER, OUTPUT, Options, option, parse_path

WITH_VALUE = ("--output", "--log", "--bundle", "--inventory", "-i", "--set", "-e", "--cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(Options):
    """Options of `doctor`."""

    log: str | None = option(
        "a log, a folder of logs, or - for standard input; by default the newest failed run",
        positional=is_argument_typed("doctor", WITH_VALUE),
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
    the line that shows it, what to do, and where it was reported; read the first cause first. Where
    no signature matches the failure, it says so and shows each host's first error. Exits with 0
    whatever it finds, with 5 if there is no log to read.

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
