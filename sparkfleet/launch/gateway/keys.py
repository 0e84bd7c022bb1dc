"""API keys of the gateway: one name and one key a line, in a file of this machine.

Only hashes of them leave this machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sparkfleet.commands import quote
from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.gateway import Gateway
from sparkfleet.inventory.secret_files import read_private_file
from sparkfleet.resources import expand_home
from sparkfleet.variables.gateway import MODEL_NAME

MIN_KEY = 16  # characters: too many to guess
MAX_KEY = 1024
FORM = "one name and one key per line, such as: alice 5b7c..."
ENTRY = "api_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key, and the name by which the log of the gateway shows who used it."""

    name: str
    key: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the key, as HAProxy writes it."""
        return hashlib.sha256(self.key.encode()).hexdigest().upper()


def read_api_keys(gateway: Gateway) -> tuple[ApiKey, ...]:
    """Return the keys of the gateway, none where it asks for none.

    Raises InventoryError for a file that others can read or that has another form; no message
    quotes what it holds.
    """
    if not gateway.settings.api_keys:
        return ()
    path = expand_home(gateway.settings.api_keys)
    where = gateway.locate(ENTRY)
    make = f"make it: (umask 077; echo me $(openssl rand -hex 24) > {quote([str(path)])})"
    text = read_private_file(path, subject="gateway: api_keys", where=where, hint=make)
    keys = tuple(_parse_keys(text, path, where))
    if not keys:
        raise InventoryError(f"gateway: api_keys: {path} contains no keys", where=where, hint=make)
    return keys


def _parse_keys(text: str, path: Path, where: Where | None) -> Iterator[ApiKey]:
    names: set[str] = set()
    digests: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        wrong = _find_fault(words)
        entry = ApiKey(name=words[0], key=words[-1])
        if not wrong and (entry.name in names or entry.digest in digests):
            wrong = "its name or key is already on an earlier line"
        if wrong:
            raise InventoryError(
                f"gateway: api_keys: line {number} of {path}: {wrong}", where=where, hint=FORM
            )
        names.add(entry.name)
        digests.add(entry.digest)
        yield entry


def _find_fault(words: list[str]) -> str:
    if len(words) != 2:
        return f"expected a name and a key (got {len(words)} word{'s' * (len(words) > 1)})"
    name, key = words
    if not MODEL_NAME.fullmatch(name):
        return "the name may have letters, digits and . _ : / @ + - only"
    if not (MIN_KEY <= len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        return (
            f"the key must have {MIN_KEY} to {MAX_KEY} printable ASCII characters (got {len(key)})"
        )
    return ""
