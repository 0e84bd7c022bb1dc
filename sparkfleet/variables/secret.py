"""Secrets in an environment: how to recognize and mask them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

VEIL = "(secret)"
FROM_FILE = "from_file"
# Variables of Ansible's sudo plugin; later ones override earlier ones.
SUDO_PASSWORDS = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
PASSWORDS = frozenset({*SUDO_PASSWORDS, "ansible_password", "ansible_ssh_pass"})
NAMES = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)


def is_secret(name: str, written: Any = None) -> bool:
    """Whether variable `name` is a secret, by its name or by its value as `written`.

    A value from a file or from this machine's environment always is one.
    """
    if isinstance(written, str) and "lookup(" in written:
        return True
    return is_file(written) or NAMES.search(name) is not None


def is_file(written: Any) -> bool:
    """Whether a value is ``{from_file: PATH}``."""
    return (
        isinstance(written, Mapping)
        and set(written) == {FROM_FILE}
        and isinstance(written[FROM_FILE], str)
    )


def mask_secret(environment: Any, written: Any = None) -> Any:
    """Return an environment with secrets masked; `written` is the same before rendering."""
    if not isinstance(environment, Mapping):
        return environment
    raw = written if isinstance(written, Mapping) else {}
    return {
        name: VEIL if _is_masked(str(name), value, raw.get(name)) else value
        for name, value in environment.items()
    }


def _is_masked(name: str, value: Any, raw: Any) -> bool:
    return value is not None and not is_file(value) and is_secret(name, raw)
