"""The `sparkfleet` command; `--version` answers before anything heavy is imported."""

from __future__ import annotations

import os
import sys

from sparkfleet import __version__


def main() -> None:
    """Run the command line; its exit status holds also where nobody reads the output any more."""
    try:
        _run()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # a closed terminal: what is left unsaid would end Python with 120
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"sparkfleet {__version__}\n")
        return
    if sys.argv[1:2] and sys.argv[1].startswith("inventory."):
        from sparkfleet.cli.offline import answer  # noqa: PLC0415 - for these alone

        if answer(sys.argv[1:]):
            return
    from sparkfleet.cli.program import program  # noqa: PLC0415 - invoke costs 0.1 s

    program().run()


if __name__ == "__main__":
    main()
