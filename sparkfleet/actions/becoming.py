"""Which user of a host does a task's work, and how sudo is given its password."""

from __future__ import annotations

from sparkfleet.actions.scene import Scene
from sparkfleet.errors import InventoryError
from sparkfleet.remote.sudo import NO_SUDO, Sudo

HELP = "as another user, root by default, through sudo; the host's ansible_become wins"


def become(scene: Scene, host: str, *, asked: bool | None) -> Sudo:
    """Return the user that a task becomes on `host`, NO_SUDO for the login itself.

    `asked` is the task's own word; as in Ansible, `ansible_become` of the host wins over it.
    Raises InventoryError for a way that is not sudo, and for a password that cannot be had.
    """
    variables = scene.variables[host]
    if not variables.get("ansible_become", asked):
        return NO_SUDO
    method = variables.get("ansible_become_method", "sudo")
    if method != "sudo":
        raise InventoryError(
            f"host {variables['inventory_hostname']}: ansible_become_method is {method!r}",
            hint="known: sudo",
        )
    return Sudo(
        user=str(variables.get("ansible_become_user", "root")), password=password(scene, host)
    )


def password(scene: Scene, host: str) -> str:
    """Return the password of `host` for sudo: a variable's, else what was typed, as in Ansible."""
    own = scene.variables[host].sudo_password() if host in scene.variables else ""
    return own or scene.options.sudo_password
