"""Errors of hosts whose login shell or Python does not get as far as a program."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sparkfleet.errors import CommandError, HostError, UnreachableError
from sparkfleet.onhost.shared.program_archive import CONSUMED
from sparkfleet.remote.errors import build_ssh_command

if TYPE_CHECKING:
    from sparkfleet.model import Host
    from sparkfleet.remote.multiplexer import MultiplexerClient, NotStartedError

NOT_FOUND = 127  # the status of a shell that does not find a command
REFUSED = "account is currently not available"  # nologin(8)
START_FILES = {  # by the name of the shell; those of a shell that is not interactive
    "csh": ".cshrc",
    "bsd-csh": ".cshrc",
    "tcsh": ".tcshrc and .cshrc",
    "zsh": ".zshenv",
    "fish": ".config/fish/config.fish",
    "elvish": ".config/elvish/rc.elv",
    "mksh": ".mkshrc",
    "ksh93": ".kshrc",
}
END_EARLY = "make it return early where the shell is not interactive"
SHOWN = 300  # characters of what the shell printed


def build_lost_error(host: Host, when: str = "") -> UnreachableError:
    """Return the error of a connection that broke; `when` says what was being done."""
    return UnreachableError(
        f"the connection was lost {when}".strip(),
        host=host.name,
        hint=f"is the machine up? try: ping {host.address}",
    )


def build_no_python_error(host: Host) -> CommandError:
    """Return the error of a host without python3."""
    return CommandError(
        "python3 was not found",
        host=host.name,
        hint="install it on that host: sudo apt-get install -y python3",
    )


def build_not_started_error(
    host: Host, ended: NotStartedError, *, lost: bool, shell: str = ""
) -> HostError:
    """Return the error of a login shell, or python3, that ended before a program ran.

    `shell` is the path of the shell where it is known.
    """
    if lost:
        return build_lost_error(host, "while a program started")
    said = _format_said(ended.noise + b"\n" + ended.stderr.encode())
    if REFUSED in said:
        return CommandError(
            "the login shell of that user refuses commands",
            host=host.name,
            hint="log in as a user with a shell (ansible_user), or set one on that host: chsh",
        )
    if CONSUMED in said:
        return CommandError(
            CONSUMED, host=host.name, hint=f"{_list_start_files(shell)} on that host: {END_EARLY}"
        )
    if ended.status == NOT_FOUND and "python3" in said:
        return build_no_python_error(host)
    return CommandError(
        f"the login shell{f' {shell}' * bool(shell)} or python3 exited with status {ended.status} "
        "before the program ran" + (f": {said}" if said else ""),
        host=host.name,
        hint=f"see what it does: {build_ssh_command(host, 'python3', '-V')}; "
        f"look at {_list_start_files(shell)} on that host",
    )


def _list_start_files(shell: str) -> str:
    """Return the files that a shell reads before it runs a command."""
    return START_FILES.get(PurePosixPath(shell).name, ".bashrc")


def build_silent_error(host: Host, multiplexer: MultiplexerClient | None) -> UnreachableError:
    """Return the error of a host that starts no program in time."""
    said = _format_said(multiplexer.noise) if multiplexer and not multiplexer.greeted else ""
    if said:
        return UnreachableError(
            f"the login shell did not start the program; it printed: {said}",
            host=host.name,
            hint=(
                f"does a start file such as .bashrc prompt or wait for something? Then {END_EARLY}"
            ),
        )
    return UnreachableError(
        "cannot start processes on the host",
        host=host.name,
        hint=f"is it up, and does it have free memory? try: {build_ssh_command(host)}",
    )


def _format_said(text: bytes) -> str:
    words = " ".join(text.decode(errors="backslashreplace").split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}..."
