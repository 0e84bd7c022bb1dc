"""The sudo password in the variables of a host, by Ansible's names."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory import secret_files
from sparkfleet.model import Value
from sparkfleet.resources import expand_home
from sparkfleet.templating import holds_template
from sparkfleet.variables.secret import FROM_FILE, SUDO_PASSWORDS, is_file

COMMAND_LINE = "--set"


def read_sudo_password(values: Mapping[str, Value]) -> str:
    """Return the password in `values`, "" if there is none.

    It is a text in a file that only its owner may read, or ``{from_file: PATH}`` of such a file.
    Raises InventoryError for a file that others may read or that cannot be read, and for a text
    that is on the command line.
    """
    named = [name for name in SUDO_PASSWORDS if name in values and values[name].data is not None]
    if not named:
        return ""
    name = named[-1]
    value = values[name]
    if is_file(value.data):
        return _read_password_file(name, expand_home(value.data[FROM_FILE]), value.where)
    if value.raw is None:
        _check_password_literal(name, value)
    return str(value.data)


def _read_password_file(name: str, path: Path, where: Where | None) -> str:
    hint = "expected a file on this machine with nothing but the password, mode 0600"
    text = secret_files.read_secret_file(path, subject=name, where=where, hint=hint)
    _check_password_mode(name, path, where)
    if not text or "\n" in text:
        lines = f"has {text.count(chr(10)) + 1} lines" if text else "is empty"
        raise InventoryError(
            f"{name} cannot be read from {path}: the file {lines}",
            where=where,
            hint="expected one line with nothing but the password",
        )
    return text


def _check_password_literal(name: str, value: Value) -> None:
    if holds_template(value.data):
        raise InventoryError(
            f"{name} cannot be rendered here",
            where=value.where,
            hint="supported: \"{{ lookup('env', 'NAME') }}\", {from_file: PATH}, "
            "or --ask-become-pass",
        )
    if value.where is None:
        return
    if value.where.file.startswith(COMMAND_LINE):
        raise InventoryError(
            f"{name} is a password, and every user of this machine can read a command line",
            where=value.where,
            hint=f"type: --ask-become-pass, or --set '{name}={{from_file: PATH}}'",
        )
    if value.data:
        _check_password_mode(name, Path(value.where.file), value.where)


def _check_password_mode(name: str, path: Path, where: Where | None) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & secret_files.SHARED_MODE:
        raise InventoryError(
            f"{name} is a password, but other users can read {path} (mode {mode:04o})",
            where=where,
            hint=f"type: chmod 600 {path}",
        )
