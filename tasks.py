"""The tasks of sparkfleet, for `invoke` in a checkout; sparkfleet parses the command line."""

import sys
from pathlib import PurePath

from sparkfleet.__main__ import main
from sparkfleet.cli.tasks import namespace  # noqa: F401 - invoke looks for this name

program = PurePath(sys.argv[0])
if program.name in ("invoke", "inv") or program.parts[-2:] == ("invoke", "__main__.py"):
    main("invoke")  # so that invoke and sparkfleet give the same errors and exit codes
