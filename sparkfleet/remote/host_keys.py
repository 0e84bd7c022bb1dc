"""The check of every host key, which Paramiko calls once a machine has shown its own."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paramiko

from sparkfleet.errors import UnreachableError, UsageError
from sparkfleet.remote import errors
from sparkfleet.remote.errors import Target
from sparkfleet.remote.known_hosts import KeyVerdict, KnownKeys, read_known_keys
from sparkfleet.remote.sockets import CONNECT_TIMEOUT
from sparkfleet.remote.ssh_options import SshOptions
from sparkfleet.resources import expand_home

if TYPE_CHECKING:
    import fabric


RENAMED = {"curve25519-sha256@libssh.org": "curve25519-sha256"}  # RFC 8731, for OpenSSH the same


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedKey:
    """The key that a machine shows; `kind` as in known_hosts."""

    kind: str
    key: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint as OpenSSH prints it: ``SHA256:`` and 43 characters."""
        digest = base64.b64encode(hashlib.sha256(self.key).digest()).decode()
        return f"SHA256:{digest.rstrip('=')}"


def list_known_hosts_files(options: SshOptions) -> list[Path]:
    """Return the files of known hosts, the one that is written to first."""
    names = ("/dev/null" if name.lower() == "none" else name for name in options.known_hosts)
    return [expand_home(name) for name in names]


def check_host_keys(connection: fabric.Connection, options: SshOptions) -> None:
    """Have `connection`, once it is opened, check the host key as `options` say."""
    files = list_known_hosts_files(options)
    name = Target(host=connection.host, options=replace(options, port=connection.port)).name
    known = read_known_keys(files, name)
    accepts = options.key_checking == "accept-new"
    policy = HostKeyPolicy(known, name, files[0] if accepts else None, options)
    connection.client.set_missing_host_key_policy(policy)
    connection.connect_kwargs["transport_factory"] = partial(_build_transport, known)


def read_target_keys(target: Target) -> KnownKeys:
    """Return what known_hosts has for a machine."""
    return read_known_keys(list_known_hosts_files(target.options), target.name)


def read_offered_key(sock: Any, target: Target) -> OfferedKey:
    """Return the key that `target`, behind `sock`, shows, of a known type if it has one.

    It does not log in. Raises SSHException, EOFError and OSError.
    """
    transport = _build_transport(read_target_keys(target), sock)
    try:
        transport.banner_timeout = CONNECT_TIMEOUT
        transport.start_client(timeout=CONNECT_TIMEOUT)
        key = transport.get_remote_server_key()
        return OfferedKey(kind=key.get_name(), key=key.asbytes())
    finally:
        transport.close()


def add_known_key(file: Path, name: str, offered: OfferedKey) -> None:
    """Add a line to the file of known hosts, which is made if it is missing; raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = file.read_bytes() if file.exists() else b""
    end = "" if content.endswith(b"\n") or not content else "\n"
    with file.open("a") as lines:
        lines.write(f"{end}{name} {offered.kind} {base64.b64encode(offered.key).decode()}\n")


def list_disabled_algorithms(options: SshOptions) -> dict[str, list[str]]:
    """Return, by Paramiko's kind, what it has and ssh's configuration does not allow.

    Raises UsageError where nothing is left of a kind.
    """
    disabled = {}
    for kind, allowed in options.algorithms:
        known: tuple[str, ...] = getattr(paramiko.Transport, f"_preferred_{kind}")
        disabled[kind] = [name for name in known if not {name, RENAMED.get(name)} & {*allowed}]
        if len(disabled[kind]) == len(known):
            raise UsageError(
                f"unsupported SSH option for {options.address}: none of {', '.join(allowed)} is "
                "supported",
                hint=f"supported: {', '.join(known)}",
            )
    return disabled


def _build_transport(known: KnownKeys, *args: Any, **kwargs: Any) -> paramiko.Transport:
    """Return a transport that asks for a key of a known type first, as OpenSSH does."""
    transport = paramiko.Transport(*args, **kwargs)
    security = transport.get_security_options()
    asked = list(security.key_types)
    # An RSA key is "ssh-rsa" in known_hosts whichever hash signs with it.
    asked.sort(key=lambda kind: re.sub(r"^rsa-sha2-.*", "ssh-rsa", kind) not in known.types)
    security.key_types = asked
    return transport


class HostKeyRefusedError(paramiko.SSHException):
    """The host showed a key that known_hosts does not allow; the message is not shown."""

    def __init__(self, verdict: KeyVerdict, remarks: Sequence[str]) -> None:
        super().__init__(verdict.name)
        self.verdict = verdict
        self.remarks = remarks

    def translate(self, target: Target) -> UnreachableError:
        """Return the error for the user."""
        unchecked = target.options.key_checking == "no"
        if self.verdict is KeyVerdict.TOO_SMALL:
            return errors.build_small_key_error(target)
        if self.verdict is KeyVerdict.REVOKED:
            return errors.build_revoked_key_error(target)
        if self.verdict is KeyVerdict.CHANGED:
            return errors.build_changed_key_error(target, unchecked=unchecked)
        return errors.build_unknown_key_error(target, self.remarks, unchecked=unchecked)


class HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Judges every host key. Paramiko's own check knows no patterns and no revoked keys.

    With `file`, trusts a host on first contact and adds its key there.
    """

    def __init__(self, known: KnownKeys, name: str, file: Path | None, options: SshOptions) -> None:
        self._known = known
        self._name = name
        self._file = file
        self._options = options

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Return if the key is known or new and trusted; raises HostKeyRefusedError, OSError."""
        del client, hostname
        verdict = self._known.judge(key.get_name(), key.asbytes())
        if key.get_name() == "ssh-rsa" and key.get_bits() < self._options.rsa_bits:
            verdict = KeyVerdict.TOO_SMALL
        if verdict is KeyVerdict.KNOWN:
            return
        if verdict is not KeyVerdict.UNKNOWN or self._file is None:
            raise HostKeyRefusedError(verdict, self._known.remarks)
        offered = OfferedKey(kind=key.get_name(), key=key.asbytes())
        hashes = self._options.hash_names
        name = paramiko.HostKeys.hash_host(self._name) if hashes else self._name
        add_known_key(self._file, name, offered)
