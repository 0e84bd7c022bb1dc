"""A host that commands can be sent to; the only module that imports Fabric and Paramiko.

What Fabric and Paramiko do not do by themselves, and this module does (engineering.md, "Measured
traps"): check host keys on the host and on every jump host, switch Nagle's algorithm off (50 ms ->
16 ms a command), bound every wait, and notice a machine that lost power.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import fabric
import paramiko

from sparkfleet.errors import AuthenticationError, HostKeyError, UnreachableError
from sparkfleet.remote import ping
from sparkfleet.remote.channel import PIECE, Channel, ChannelTimeoutError
from sparkfleet.remote.link import Link
from sparkfleet.remote.sockets import CONNECT_TIMEOUT, dial
from sparkfleet.remote.ssh_options import SshOptions, ssh_options

if TYPE_CHECKING:
    from sparkfleet.commands import Command
    from sparkfleet.model import Host

# Paramiko logs a traceback for every host that hangs up; what happened is told by our own errors.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

KEEPALIVE = 5  # s between keepalive packets


class SshLink(Link):
    """A host behind SSH. One thread at a time may use it: `open()` is not thread-safe in Fabric."""

    def __init__(self, host: Host, connection: fabric.Connection) -> None:
        super().__init__(host)
        self._connection = connection

    def _start(self, command: Command) -> Channel:
        try:
            session = self._connection.transport.open_session(timeout=CONNECT_TIMEOUT)
            session.exec_command(command.line().encode())
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise UnreachableError(
                f"the SSH connection was lost ({_reason(error)})",
                host=self.host.name,
                hint="is the machine up? try: ssh " + self.host.address,
            ) from error
        return SshChannel(session)

    def lost(self) -> bool:
        """Return whether the SSH connection broke."""
        return not self._connection.transport.is_active()

    def close(self) -> None:
        """Close the connection and those to its jump hosts."""
        super().close()
        hop: Any = self._connection
        while isinstance(hop, fabric.Connection):
            hop.close()
            hop = hop.gateway


class SshChannel(Channel):
    """A command behind a Paramiko channel."""

    def __init__(self, session: paramiko.Channel) -> None:
        self._session = session
        super().__init__()

    def send(self, data: bytes) -> None:
        """Write `data` to the command's standard input."""
        self._session.sendall(data)

    def end_input(self) -> None:
        """Close the command's standard input."""
        self._session.shutdown_write()

    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next bytes of standard output, or ``b""`` at its end."""
        wait = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        self._session.settimeout(wait)
        try:
            return self._session.recv(PIECE)
        except TimeoutError as error:
            raise ChannelTimeoutError from error

    def wait(self) -> int:
        """Return the exit status; 255, as ssh(1) says it, where the connection died before it."""
        status = self._session.recv_exit_status()
        return 255 if status < 0 else status

    def close(self) -> None:
        """Drop the channel; the command sees its standard input end."""
        self._session.close()

    def _read_stderr(self) -> bytes:
        with contextlib.suppress(OSError):
            return self._session.recv_stderr(PIECE)
        return b""


def connect(host: Host) -> SshLink:
    """Open the SSH connection that `host`'s inventory variables describe.

    Raises UnreachableError, or its HostKeyError and AuthenticationError.
    """
    options = ssh_options(host)
    connection = _connection(options, fabric.Config())
    began = time.monotonic()
    try:
        _open(connection)
    except UnreachableError:
        raise
    except (paramiko.SSHException, OSError, EOFError) as error:
        waited_out = time.monotonic() - began > CONNECT_TIMEOUT * 0.9  # Paramiko names it variously
        if waited_out and connection.gateway is False and ping.answers(connection.host):
            raise _starved(host, connection) from error
        raise _refusal(host, connection, error) from error
    return SshLink(host, connection)


def _connection(options: SshOptions, config: fabric.Config) -> fabric.Connection:
    gateway: fabric.Connection | Literal[False] = False
    for hop in options.jumps:
        gateway = _connection(hop, config) if gateway is False else _behind(hop, config, gateway)
    return _behind(options, config, gateway)


def _behind(
    options: SshOptions, config: fabric.Config, gateway: fabric.Connection | Literal[False]
) -> fabric.Connection:
    keys = {"key_filename": list(options.identity_files)} if options.identity_files else {}
    connection = fabric.Connection(
        options.address,
        user=options.user,
        port=options.port,
        config=config,
        gateway=gateway,
        connect_timeout=CONNECT_TIMEOUT,
        connect_kwargs={
            "banner_timeout": CONNECT_TIMEOUT,
            "auth_timeout": CONNECT_TIMEOUT,
            "channel_timeout": CONNECT_TIMEOUT,
            **keys,
        },
    )
    _check_host_keys(connection.client, options)
    return connection


def _check_host_keys(client: paramiko.SSHClient, options: SshOptions) -> None:
    for known_hosts in options.known_hosts or (None,):
        if known_hosts is None or Path(known_hosts).expanduser().exists():
            client.load_system_host_keys(known_hosts)
    policy = paramiko.AutoAddPolicy if options.accept_new else paramiko.RejectPolicy
    client.set_missing_host_key_policy(policy())


def _open(connection: fabric.Connection) -> None:
    if isinstance(connection.gateway, fabric.Connection):
        _open(connection.gateway)
        connection.open()
    else:
        with contextlib.ExitStack() as opened:
            sock = opened.enter_context(dial(connection.host, connection.port))
            connection.connect_kwargs["sock"] = sock
            connection.open()
            opened.pop_all()  # it is the connection's now
    connection.transport.set_keepalive(KEEPALIVE)


def _refusal(host: Host, connection: fabric.Connection, error: Exception) -> UnreachableError:
    login = f"{connection.user}@{connection.host}"
    target = f"{login}:{connection.port}"
    for kind, build in _REFUSALS:
        if isinstance(error, kind):
            return build(host.name, target, error)
    return UnreachableError(
        f"cannot connect to {target} ({_reason(error)})",
        host=host.name,
        hint=f"check the address and that sshd runs: ssh -v -p {connection.port} {login}",
    )


def _starved(host: Host, connection: fabric.Connection) -> UnreachableError:
    return UnreachableError(
        f"SSH to {connection.host}:{connection.port} is silent, though the machine answers a ping",
        host=host.name,
        hint=ping.STARVED,
    )


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _wrong_key(host: str, target: str, _error: Exception) -> UnreachableError:
    return HostKeyError(
        f"{target} answered with another host key than the one in known_hosts",
        host=host,
        hint="a reinstalled machine? compare fingerprints, then: ssh-keygen -R <address>",
    )


def _refused(host: str, target: str, error: Exception) -> UnreachableError:
    if "not found in known_hosts" in str(error):
        return HostKeyError(
            f"the host key of {target} is not in known_hosts",
            host=host,
            hint="connect once by hand and compare the fingerprint: ssh "
            + target.rsplit(":", 1)[0],
        )
    return UnreachableError(
        f"SSH to {target} failed ({_reason(error)})",
        host=host,
        hint="see what OpenSSH says: ssh -v " + target.rsplit(":", 1)[0],
    )


def _no_login(host: str, target: str, error: Exception) -> UnreachableError:
    if isinstance(error, paramiko.PasswordRequiredException):
        return AuthenticationError(
            f"the key for {target} needs its passphrase",
            host=host,
            hint="load it into the agent: ssh-add",
        )
    return AuthenticationError(
        f"{target} accepted none of the keys that were offered",
        host=host,
        hint=f"install a key: ssh-copy-id -p {target.rsplit(':', 1)[1]} "
        f"{target.rsplit(':', 1)[0]}; or set ansible_ssh_private_key_file",
    )


_Refuse = Callable[[str, str, Exception], UnreachableError]
_REFUSALS: Sequence[tuple[type[Exception], _Refuse]] = (
    (paramiko.BadHostKeyException, _wrong_key),
    (paramiko.AuthenticationException, _no_login),
    (paramiko.SSHException, _refused),
)
