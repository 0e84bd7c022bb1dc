"""Which user of a host does a task's work, and how sudo is given its password."""

from __future__ import annotations

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import InventoryError
from sparkfleet.remote.sudo import NO_SUDO, Sudo

HELP = "as another user, root by default, through sudo; the host's ansible_become wins"


def resolve_become(run: RunContext, host: str, *, requested: bool | None) -> Sudo:
    """Return the user that a task becomes on `host`, NO_SUDO for the login itself.

    `asked` is the task's own word; as in Ansible, `ansible_become` of the host wins over it.
    Raises InventoryError for a way that is not sudo, and for a password that cannot be had.
    """
    variables = run.variables[host]
    if not variables.get("ansible_become", requested):
        return NO_SUDO
    method = variables.get("ansible_become_method", "sudo")
    if method != "sudo":
        raise InventoryError(
            f"host {variables['inventory_hostname']}: ansible_become_method is {method!r}",
            hint="known: sudo",
        )
    return Sudo(
        user=str(variables.get("ansible_become_user", "root")),
        password=find_sudo_password(run, host),
    )


def find_sudo_password(run: RunContext, host: str) -> str:
    """Return the password of `host` for sudo: a variable's, else what was typed, as in Ansible."""
    password = run.variables[host].sudo_password() if host in run.variables else ""
    return password or run.options.sudo_password
