"""`hosts.prepare`: the changes that make hosts ready, shown or made."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.cli import prompt
from sparkfleet.cli.hosts.options import PrepareOptions
from sparkfleet.cli.playbook.run_playbook import run_playbook
from sparkfleet.cli.views.screen import print_lines


def prepare_hosts(options: PrepareOptions) -> int:
    """Run the playbook, only to show the changes without --yes; return the exit code."""
    check_only = options.check or not options.yes
    code = run_playbook("hosts-prepare", replace(options, check=check_only, diff=True))
    if check_only and not options.json:
        print_lines(prompt.ONLY_SHOWN)
    return code
