"""Doing a task's work as another user of the host, through sudo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.commands import Command, script, shell_script
from sparkfleet.errors import CommandError, InventoryError
from sparkfleet.remote.channel import Result
from sparkfleet.remote.link import DEFAULT_TIMEOUT, Link

REFUSED = 116  # the exit status of become.sh where sudo refuses
MARK = "sparkfleet: "  # what our shell programs write before words of theirs
HELP = "as another user, root by default, through sudo; the host's ansible_become wins"


def become_user(variables: Mapping[str, Any], *, asked: bool | None) -> str:
    """Return the user that a task becomes on a host with `variables`, "" for none.

    `asked` is the task's own word; as in Ansible, `ansible_become` of the host wins over it.
    Raises InventoryError for a way that is not sudo.
    """
    if not variables.get("ansible_become", asked):
        return ""
    method = variables.get("ansible_become_method", "sudo")
    if method != "sudo":
        raise InventoryError(
            f"host {variables['inventory_hostname']}: ansible_become_method is {method!r}",
            hint="known: sudo",
        )
    return str(variables.get("ansible_become_user", "root"))


def elevated(command: Command, user: str) -> Command:
    """Return the command that runs `command` as `user`; itself where that is ""."""
    if not user:
        return command
    return replace(command, argv=shell_script("become", user, *command.argv).argv)


def check_sudo(link: Link, result: Result) -> None:
    """Raise CommandError if `result` is sudo's refusal, and not the command's own end."""
    said = own_words(result, REFUSED)
    if not said:
        return
    message = "sudo asks for a password" if "password" in said else "sudo is not possible"
    raise CommandError(
        f"{message} ({said})",
        host=link.host.name,
        hint="let the inventory's user use it without one: NOPASSWD in /etc/sudoers.d",
    )


def own_words(result: Result, status: int) -> str:
    """Return what a shell program of ours says with `status`, "" if `result` is the command's."""
    ours = result.returncode == status and result.stderr.startswith(MARK)
    return result.stderr.removeprefix(MARK).strip() if ours else ""


def ask(
    link: Link,
    program: str,
    request: Mapping[str, Any],
    *,
    user: str = "",
    payload: Iterable[bytes] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> dict[str, Any]:
    """Return the answer of a program on the host, as `Link.ask` does, run there by `user`."""
    command = elevated(script(program, request), user)
    result = link.run(command, payload=payload, timeout=timeout)
    check_sudo(link, result)
    return link.answer(program, result)
