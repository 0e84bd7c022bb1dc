"""The user that runs a task on a host, and the password for sudo."""

from __future__ import annotations

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import InventoryError
from sparkfleet.remote.sudo import NO_SUDO, Sudo

HELP = (
    "run as another user, root by default, through sudo; the host's ansible_become takes precedence"
)


def resolve_become(run: RunContext, host: str, *, requested: bool | None) -> Sudo:
    """Return the user that a task becomes on `host`, NO_SUDO for the login itself.

    `requested` is the task's `become`; as in Ansible, the host's `ansible_become` takes precedence.
    Raises InventoryError for a method other than sudo, and for a password that cannot be read.
    """
    variables = run.variables[host]
    if not variables.get("ansible_become", requested):
        return NO_SUDO
    method = variables.get("ansible_become_method", "sudo")
    if method != "sudo":
        raise InventoryError(
            f"host {variables['inventory_hostname']}: unsupported ansible_become_method {method!r}",
            hint="only sudo is supported",
        )
    return Sudo(
        user=str(variables.get("ansible_become_user", "root")),
        password=find_sudo_password(run, host),
    )


def find_sudo_password(run: RunContext, host: str) -> str:
    """Return the sudo password of `host`: from a variable, else as typed, as in Ansible."""
    password = run.variables[host].sudo_password() if host in run.variables else ""
    return password or run.options.sudo_password
