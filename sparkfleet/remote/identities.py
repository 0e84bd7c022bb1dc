"""The keys that log in: files, and those that only the agent can use."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko

from sparkfleet.errors import UnreachableError
from sparkfleet.remote import errors
from sparkfleet.remote.errors import Target
from sparkfleet.resources import expand_home

MAGIC = b"openssh-key-v1\0"  # PROTOCOL.key of OpenSSH
LENGTH = struct.Struct(">I")
ON_DEVICE = b"sk-"  # prefix of the type of a key on a security key
USUAL_FILES = (
    "id_rsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
)  # as ssh has them
LARGEST = 1 << 20  # bytes of a file that may be a key


class SecurityKeyError(paramiko.SSHException):
    """A file is the handle of a security key, which only an agent can use; `file` names it."""

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} lives on a security key")
        self.file = file

    def translate(self, target: Target) -> UnreachableError:
        """Return the error for the user."""
        return errors.build_security_key_error(target, self.file)


class SocketAgent(paramiko.Agent):
    """The agent behind a socket that IdentityAgent names; it has no keys where none answers."""

    def __init__(self, path: str) -> None:
        paramiko.agent.AgentSSH.__init__(self)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            return
        self._connect(connection)  # type: ignore[attr-defined] # as paramiko.Agent does


def open_agent(path: str = "") -> paramiko.Agent:
    """Return the agent behind a socket, that of SSH_AUTH_SOCK for ""; raises SSHException."""
    return SocketAgent(path) if path else paramiko.Agent()


def choose_identity(
    files: Sequence[str], *, agent: bool, agent_socket: str = ""
) -> tuple[paramiko.PKey | None, tuple[str, ...]]:
    """Return a key of the agent for the first of `files` that needs it, and the other files.

    Needed for a security key, a key with a passphrase, and a public half. Raises SecurityKeyError
    for a security key that the agent does not have.
    """
    chosen: paramiko.PKey | None = None
    rest: list[str] = []
    for file in files:
        blob, alone = _read_public_half(expand_home(file))
        usable = agent and blob is not None and not alone
        found = _find_agent_key(blob, agent_socket) if usable and blob is not None else None
        if found is None and blob is not None and _read_field(blob).startswith(ON_DEVICE):
            raise SecurityKeyError(file)
        if found is None or chosen is not None:
            rest.append(file)
        else:
            chosen = found
    return chosen, tuple(rest)


def find_usual_identity(*, agent: bool, agent_socket: str = "") -> paramiko.PKey | None:
    """Return a key of the agent for the first usual file that needs it; None for no such file.

    With IdentitiesOnly no other key of the agent may sign.
    """
    for name in USUAL_FILES:
        file = expand_home(f"~/.ssh/{name}")
        with contextlib.suppress(SecurityKeyError):
            if not file.is_file():
                continue
            found, _ = choose_identity([str(file)], agent=agent, agent_socket=agent_socket)
            if found is not None:
                return found
    return None


def _find_agent_key(blob: bytes, agent_socket: str) -> paramiko.PKey | None:
    with contextlib.suppress(paramiko.SSHException, OSError):
        agent = open_agent(agent_socket)
        for key in agent.get_keys():
            if key.asbytes() == blob:
                return key
        agent.close()
    return None


def close_agent(key: paramiko.PKey | None) -> None:
    """Close the connection to the agent that holds a key; a key of a file has none."""
    agent = key.agent if isinstance(key, paramiko.AgentKey) else None
    if isinstance(agent, paramiko.Agent):
        agent.close()


def _read_public_half(path: Path) -> tuple[bytes | None, bool]:
    """Return the public half of a key, None if unknown, and whether the file alone can log in."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return None, True
    if data.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        return _decode_base64(data.split()[1:2]), False
    lines = data.split(b"-----")
    content = _decode_base64(lines[2:3]) if len(lines) > 2 else None
    if content is None or not content.startswith(MAGIC):
        return None, True
    fields = list(_read_fields(content[len(MAGIC) :]))
    if len(fields) < 4:
        return None, True
    cipher, _, _, blob = fields[:4]
    return blob, cipher == b"none" and not _read_field(blob).startswith(ON_DEVICE)


def _decode_base64(texts: Sequence[bytes]) -> bytes | None:
    with contextlib.suppress(ValueError):
        return base64.b64decode(b"".join(texts[0].split()), validate=True) if texts else None
    return None


def _read_fields(data: bytes) -> Iterator[bytes]:
    """Yield cipher, function and options of the passphrase, then the first public key."""
    at = 0
    for index in range(4):
        at += LENGTH.size if index == 3 else 0  # the number of keys
        if at + LENGTH.size > len(data):
            return
        field = _read_field(data[at:])
        yield field
        at += LENGTH.size + len(field)


def _read_field(data: bytes) -> bytes:
    """Return the first field, which its length precedes; what there is of one that is cut."""
    if len(data) < LENGTH.size:
        return b""
    return data[LENGTH.size : LENGTH.size + LENGTH.unpack_from(data)[0]]
