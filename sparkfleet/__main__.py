"""The `sparkfleet` command; `--version` answers before anything heavy is imported."""

from __future__ import annotations

import gc
import sys

from sparkfleet import __version__, command_name
from sparkfleet.report import output_streams

INTERRUPTED = 130
UNWRITTEN = 5  # output could not be written on this machine


def main(binary: str = "sparkfleet") -> None:
    """Run the command line; the exit status is right even if the reader of the output has left."""
    command_name.set_program_name(binary)
    code = _run_for_exit_code(binary)
    gc.freeze()  # or the interpreter collects garbage at exit: 60 ms
    # An interrupt within `exec`, as dataclasses call it, makes CPython end by that signal although
    # it was caught; the next text that runs clears that (run_eval_code_obj in Python/pythonrun.c).
    exec("")  # noqa: S102 - runs nothing
    sys.exit(UNWRITTEN if output_streams.flush_streams() and not code else code)


def _run_for_exit_code(binary: str) -> int | str | None:
    try:
        output_streams.protect_standard_streams()
        _run_command_line(binary)
    except SystemExit as ended:
        return ended.code
    except KeyboardInterrupt:  # while modules are imported; tasks report it themselves
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return 0


def _run_command_line(binary: str) -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"sparkfleet {__version__}\n")
        return
    if sys.argv[1:2] and sys.argv[1].startswith("inventory."):
        from sparkfleet.cli.inventory.output import try_fast_path  # noqa: PLC0415 - for these alone

        if try_fast_path(sys.argv[1:]):
            return
    from sparkfleet.cli.program import create_program  # noqa: PLC0415 - invoke costs 0.1 s

    create_program(binary).run()


if __name__ == "__main__":
    main()
