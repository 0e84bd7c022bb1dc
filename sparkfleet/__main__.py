"""The `sparkfleet` command; `--version` answers before anything heavy is imported."""

from __future__ import annotations

import gc
import sys

from sparkfleet import __version__
from sparkfleet.report import lasting

INTERRUPTED = 130
UNWRITTEN = 5  # this machine could not write what was asked for


def main(binary: str = "sparkfleet") -> None:
    """Run the command line; its exit status holds also where nobody reads the output any more."""
    lasting.settle()
    code = _code(binary)
    gc.freeze()  # else the interpreter looks for garbage at its end: 60 ms
    sys.exit(UNWRITTEN if lasting.end() and not code else code)


def _code(binary: str) -> int | str | None:
    try:
        _run(binary)
    except SystemExit as ended:
        return ended.code
    except KeyboardInterrupt:  # while modules are imported; tasks have their own word for it
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return 0


def _run(binary: str) -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"sparkfleet {__version__}\n")
        return
    if sys.argv[1:2] and sys.argv[1].startswith("inventory."):
        from sparkfleet.cli.offline import answer  # noqa: PLC0415 - for these alone

        if answer(sys.argv[1:]):
            return
    from sparkfleet.cli.program import program  # noqa: PLC0415 - invoke costs 0.1 s

    program(binary).run()


if __name__ == "__main__":
    main()
