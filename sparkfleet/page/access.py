"""Access to the page: its address, and the token that any but a loopback address needs."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.resources import expand_home
from sparkfleet.variables.binding import LOOPBACK, Binding

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
MIN_TOKEN = 16  # characters: too many to guess
MAX_TOKEN = 1024
OTHERS = stat.S_IRWXG | stat.S_IRWXO
MAKE_ONE = "make one: (umask 077; openssl rand -hex 24 > page-token)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rule by which a request is answered: a token, or else a name of this machine."""

    token: str = field(default="", repr=False)
    names: frozenset[str] = frozenset(LOCAL_NAMES)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return whether the `Authorization` of a request has the token, or none is needed."""
        if not self.token:
            return True
        kind, _, value = headers.get("authorization", "").partition(" ")
        given = value.strip() if kind.lower() == "bearer" else _read_password(kind, value)
        return hmac.compare_digest(given.encode(), self.token.encode())

    def knows_host(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request was meant for this server.

        A hostile page could resolve its own name to this machine, and read what the browser gets
        from it (DNS rebinding). A request with the token is exempt.
        """
        if self.token:
            return True
        name = headers.get("host", "").lower()
        if not name.endswith("]"):
            name = name.rpartition(":")[0] or name
        return name.removeprefix("[").removesuffix("]") in self.names


def _read_password(kind: str, value: str) -> str:
    """Return the password of `Authorization: Basic`, "" for anything else."""
    if kind.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return pair.partition(":")[2]


def decide_access(binding: Binding, token_file: Path | None) -> Access:
    """Return the rule for a binding; raises UsageError for one beyond loopback without a token."""
    if token_file is not None:
        return Access(token=read_page_token(token_file))
    if not binding.is_loopback:
        raise UsageError(
            f"--bind {binding}: other machines can reach this address, so it needs a token",
            hint=f"add --token-file FILE ({MAKE_ONE}), or tunnel: ssh -L "
            f"{binding.port}:{LOOPBACK}:{binding.port} HOST",
        )
    return Access(names=frozenset({*LOCAL_NAMES, binding.address}))


def read_page_token(path: Path) -> str:
    """Return the token in a file of this user that no other user can read; raises UsageError.

    No message quotes what the file holds.
    """
    try:
        with expand_home(path).open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(MAX_TOKEN + 2).decode("utf-8").strip("\r\n")
    except OSError as error:
        raise UsageError(f"--token-file {path}: {error.strerror}", hint=MAKE_ONE) from None
    except UnicodeDecodeError:
        raise UsageError(f"--token-file {path}: not a text file", hint=MAKE_ONE) from None
    if status.st_mode & OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise UsageError(
            f"--token-file {path}: other users can read it (mode {mode:04o}, expected 0600)",
            hint=f"chmod 600 {path}, and write a new token into it",
        )
    if not MIN_TOKEN <= len(text) <= MAX_TOKEN or not (text.isascii() and text.isprintable()):
        raise UsageError(
            f"--token-file {path}: expected one line of {MIN_TOKEN} to {MAX_TOKEN} printable "
            f"ASCII characters (got {len(text)} characters)",
            hint=MAKE_ONE,
        )
    return text
