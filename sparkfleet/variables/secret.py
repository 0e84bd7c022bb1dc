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
# Words of a variable's name that say secret, in the inventories of any tool; the last are plurals.
_WORDS = re.compile(
    r"(?:^|_)(?:[a-z0-9]*(?:token|password|passwd|passphrase|secret)|pass$|pwd|credential|psk|pat"
    r"|(?:[a-z0-9]*(?:api|access|auth|private|secret|encryption|signing|master|license))?key"
    r"|[a-z0-9]*(?:passwords|secrets|tokens)|credentials"
    r"|[a-z0-9]*(?:api|access|auth|private|secret|encryption)_?keys)(?:_|$)"
)
# A name that ends so is the place of a secret or says something about it; other keys are public,
# and other tokens are counted.
_NO_SECRET = re.compile(
    r"_(?:files?|filename|paths?|dir|folder|mount|url|uri|endpoint|name|id|type|kind|user|owner"
    r"|group|mode|size|length|bits|count|ttl|lifetime|expiry|expires|days|algorithm|format|map"
    r"|server|checking|enabled|required|policy|store)$"
    r"|(?:^|_)(?:public|pub|authorized|known|gpg|apt|rpm|primary|sort)_(?:\w+_)?keys?(?:_|$)"
    r"|(?:^|_)(?:max|min|num|number|limit|prompt|output|input|smoke)_(?:\w+_)?tokens(?:_|$)"
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def names_secret(name: str) -> bool:
    """Return whether the name of a variable of any tool says that its value is a secret.

    ``gpustack_token`` and ``apiKey`` do; ``ssh_private_key_file`` and ``max_tokens`` do not.
    """
    if " " in name:  # a text
        return False
    words = re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", name).lower())
    return _WORDS.search(words) is not None and _NO_SECRET.search(words) is None


def is_secret(name: str, written: Any = None) -> bool:
    """Return whether variable `name` is a secret, by its name or by its value as `written`.

    A value from a file or from this machine's environment always is one.
    """
    if isinstance(written, str) and "lookup(" in written:
        return True
    return is_file(written) or NAMES.search(name) is not None


def is_file(written: Any) -> bool:
    """Return whether a value is ``{from_file: PATH}``."""
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
