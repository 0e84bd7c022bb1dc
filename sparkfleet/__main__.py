"""The `sparkfleet` command; `--version` answers before anything heavy is imported."""

from __future__ import annotations

import sys

from sparkfleet import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"sparkfleet {__version__}\n")
        return
    from sparkfleet.cli.program import program  # noqa: PLC0415 - invoke costs 0.3 s

    program().run()


if __name__ == "__main__":
    main()
