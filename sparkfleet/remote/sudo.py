"""Run commands on a host as another user, through sudo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sparkfleet.commands import Command, build_script_command, build_shell_command
from sparkfleet.errors import CommandError
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import Result
from sparkfleet.remote.connection import DEFAULT_TIMEOUT, Connection

T = TypeVar("T")
REFUSED = 116  # the exit status of become.sh where sudo refuses
MARK = "sparkfleet: "  # starts the messages of the wrapper scripts
BEGIN = "sparkfleet: input begins"  # the line between a password and a command's own input
MISSING = "sudo is not installed"
BECOME_HINT = (
    "pass it with --ask-become-pass, or set ansible_become_password (docs/inventory.md); or give "
    "that user NOPASSWD in /etc/sudoers.d"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sudo:
    """The user that a command is run by, "" for the login itself, and the login's password.

    The password goes to standard input of `become.sh` and of sudo, and nowhere else: to no command
    line, no environment, no log, and not to the command.
    """

    user: str = ""
    password: str = field(default="", repr=False)  # "" where none was given


NO_SUDO = Sudo()


def wrap_in_sudo(command: Command, sudo: Sudo) -> Command:
    """Return the command that runs `command` by `sudo`; itself where that is the login."""
    if not sudo.user:
        return command
    mark = BEGIN if sudo.password else ""
    first = f"{sudo.password}\n{sudo.password}\n{BEGIN}\n".encode() if mark else b""
    argv = build_shell_command("transport/become", sudo.user, mark, *command.argv).argv
    return replace(command, argv=argv, stdin=first + command.input, archive=b"", program="")


def run_with_sudo(
    connection: Connection,
    command: Command,
    sudo: Sudo,
    *,
    payload: Iterable[bytes] = (),
    timeout: float = DEFAULT_TIMEOUT,
    hold: bool = False,
) -> Result:
    """Run `command` on the host by `sudo`, as `Connection.run` does.

    Raises CommandError where sudo refuses. A password that it refused is not sent to that host
    again in this run: a few tries lock an account (pam_faillock).
    """
    if sudo.password and sudo.password == connection.refused_password:
        raise _build_password_error(connection)
    result = connection.run(
        wrap_in_sudo(command, sudo), payload=payload, timeout=timeout, hold=hold
    )
    if message := parse_script_message(result, REFUSED):
        raise _build_sudo_error(connection, message, sudo)
    return result


def run_program_with_sudo(
    connection: Connection,
    program: str,
    request: Mapping[str, Any],
    *,
    sudo: Sudo = NO_SUDO,
    payload: Iterable[bytes] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> dict[str, Any]:
    """Return the answer of a program on the host that runs through `sudo`."""
    result = run_with_sudo(
        connection, build_script_command(program, request), sudo, payload=payload, timeout=timeout
    )
    return connection.parse_answer(program, result)


def query_with_sudo(
    connection: Connection,
    program: str,
    request: Mapping[str, Any],
    parser: Callable[[Any], T],
    *,
    sudo: Sudo = NO_SUDO,
    timeout: float = DEFAULT_TIMEOUT,
) -> T:
    """Return what `parser` makes of the answer of a program that runs through `sudo`.

    Raises CommandError also for an answer that `parser` cannot read.
    """
    answer = run_program_with_sudo(connection, program, request, sudo=sudo, timeout=timeout)
    return parse_answer(parser, answer, connection.host.name, program)


def parse_script_message(result: Result, status: int) -> str:
    """Return the message of a wrapper script with `status`, "" if `result` is the command's."""
    from_script = result.returncode == status and result.stderr.startswith(MARK)
    return result.stderr.removeprefix(MARK).strip() if from_script else ""


def _build_sudo_error(connection: Connection, message: str, sudo: Sudo) -> CommandError:
    host = connection.host.name
    if message == MISSING:
        return CommandError(
            MISSING, host=host, hint="as root on that host: apt-get install -y sudo"
        )
    if sudo.password and "incorrect password" in message:
        connection.refused_password = sudo.password
        return _build_password_error(connection)
    *_, reason = message.split("\n\n")  # sudo's lecture may come before
    if "password" in message and not sudo.password:
        return CommandError(f"sudo asks for a password ({reason})", host=host, hint=BECOME_HINT)
    return CommandError(
        f"sudo failed ({reason})",
        host=host,
        hint="list what that user may run, on that host: sudo -l",
    )


def _build_password_error(connection: Connection) -> CommandError:
    return CommandError(
        "sudo: incorrect password",
        host=connection.host.name,
        hint="run again with --ask-become-pass",
    )
