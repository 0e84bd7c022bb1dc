"""The tasks of sparkfleet, for `invoke` in a checkout, which hands the command line to us."""

import sys
from pathlib import PurePath

from sparkfleet.__main__ import main
from sparkfleet.cli.tasks import namespace  # noqa: F401 - invoke looks for this name

program = PurePath(sys.argv[0])
if program.name in ("invoke", "inv") or program.parts[-2:] == ("invoke", "__main__.py"):
    main("invoke")  # so that both doors refuse, suggest and end alike
