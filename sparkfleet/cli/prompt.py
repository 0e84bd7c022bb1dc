"""Questions on the terminal: the sudo password, and whether to continue."""

from __future__ import annotations

import getpass
import os
import sys

from sparkfleet.errors import UsageError
from sparkfleet.report.visible import escape_line

TERMINAL = "/dev/tty"
ONLY_SHOWN = "nothing was changed; to make these changes: --yes"


def prompt_sudo_password() -> str:
    """Return the password typed on the terminal, without echo; raises UsageError without one."""
    require_terminal(
        "--ask-become-pass",
        "set ansible_become_password: {from_file: PATH} in the inventory, or pass "
        "--set 'ansible_become_password={from_file: PATH}'",
    )
    try:
        password = getpass.getpass("sudo password for the hosts: ")
    except EOFError:
        password = ""
    if not password:
        raise UsageError("no password was entered", hint="leave out --ask-become-pass")
    return password


def require_terminal(who: str, hint: str) -> None:
    """Raise UsageError, with `hint`, where `who` has no terminal to ask on."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        raise UsageError(f"{who} requires a terminal", hint=hint) from error


def is_interactive() -> bool:
    """Return whether questions can be asked: input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, *, default: str = "") -> str:
    """Return what is typed on the terminal, or `default` for an empty line or end of input."""
    shown = f" [{default}]" if default else ""
    try:
        return input(f"{escape_line(question)}{shown}: ").strip() or default
    except EOFError:
        return default


def confirm(question: str) -> bool:
    """Return whether the answer on the terminal is yes; False where there is no terminal."""
    if not is_interactive():
        return False
    try:
        return input(f"{escape_line(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
