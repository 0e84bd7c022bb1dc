"""`init`: the first task of a new user."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.init.options import InitOptions
from sparkfleet.cli.options import FORKS, RECIPE


@command("init", RECIPE, FORKS)
def init(options: InitOptions) -> int:
    """Make a project: an inventory of your Sparks, sparkfleet.yaml, tasks.py and a playbook.

    Asks on a terminal for the Sparks and the model, shows host keys to compare and copies your SSH
    key where it is missing; then it connects, reads what the hosts are, and fills in cabling,
    topology and MTU. It makes an API key for the endpoint, in a file that only you can read.
    Without a terminal, or with --yes, everything comes from the options. The only change on a host
    is your key in authorized_keys. A file that exists is kept.

      {task:init}
      {task:init} my-sparks --host nvidia@192.168.1.11 --host nvidia@192.168.1.12 --yes
    """
    from sparkfleet.cli.init.project import create_project

    return create_project(options)
