"""Connections by SSH; only this module, host_keys.py and identities.py use Fabric and Paramiko.

What Fabric and Paramiko do not do by themselves, and this module does: check host keys on the host
and on every jump host, switch Nagle's algorithm off (50 ms -> 16 ms a command), bound every wait,
and notice a machine that lost power.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import fabric
import paramiko

from sparkfleet.errors import UnreachableError
from sparkfleet.remote import errors
from sparkfleet.remote.channel import PIECE, Channel, ChannelTimeoutError, translate_eof
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.errors import Target
from sparkfleet.remote.host_keys import (
    HostKeyRefusedError,
    OfferedKey,
    check_host_keys,
    list_disabled_algorithms,
    read_offered_key,
)
from sparkfleet.remote.identities import (
    SecurityKeyError,
    choose_identity,
    close_agent,
    find_usual_identity,
    open_agent,
)
from sparkfleet.remote.sockets import CONNECT_TIMEOUT, NO_ROUTE, dial_tcp
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_options import SshOptions, parse_ssh_options

if TYPE_CHECKING:
    from sparkfleet.commands import Command
    from sparkfleet.model import Host

# Paramiko logs a traceback for every host that hangs up; errors of this module report it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

KEEPALIVE = 5  # seconds between keepalive packets
START_PATIENCE = 3.0  # seconds of attempts at the start of a run: sshd restarts, or is too busy
RECONNECT_PATIENCE = 8.0  # seconds of attempts in its middle, also where the host is not there
FIRST_PAUSE = 0.1  # seconds; each further one is twice as long
CONNECT_FAILED = 2  # what a jump host answers where the next machine refuses: RFC 4254, 5.1


class SshConnection(Connection):
    """A host behind SSH. One thread at a time may use it: `open()` is not thread-safe in Fabric."""

    def __init__(self, host: Host, connection: fabric.Connection) -> None:
        super().__init__(host)
        self._connection = connection
        # Further ones, where sshd allows few sessions on one connection.
        self._others: list[fabric.Connection] = []

    def _start(self, command: Command) -> Channel:
        try:
            session = self._open_session()
            session.exec_command(command.login_line().encode())
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise UnreachableError(
                f"the SSH connection was lost ({_format_exception(error)})",
                host=self.host.name,
                hint=f"is the machine up? try: {errors.build_ssh_command(self.host)}",
            ) from error
        return SshChannel(session)

    def _open_session(self) -> paramiko.Channel:
        """Open a session; where sshd allows no further one (MaxSessions), on another connection."""
        session: paramiko.Channel
        for connection in (self._connection, *self._others):
            with contextlib.suppress(paramiko.ChannelException):
                session = connection.transport.open_session(timeout=CONNECT_TIMEOUT)
                return session
        another = _connect(self.host, patience=START_PATIENCE, missing=False)
        self._others.append(another)
        session = another.transport.open_session(timeout=CONNECT_TIMEOUT)
        return session

    def is_lost(self) -> bool:
        """Return whether the SSH connection broke."""
        transport = self._connection.transport
        return transport is None or not transport.is_active() or super().is_lost()

    def _open_again(self) -> None:
        self._close_all()
        self._connection = _connect(self.host, patience=RECONNECT_PATIENCE, missing=True)

    def close(self) -> None:
        """Close the connection and those to its jump hosts."""
        super().close()
        self._close_all()

    def _close_all(self) -> None:
        for connection in (self._connection, *self._others):
            _close_hops(connection)
        self._others = []


class SshChannel(Channel):
    """A command behind a Paramiko channel."""

    def __init__(self, session: paramiko.Channel) -> None:
        self._session = session
        super().__init__()

    def send(self, data: bytes) -> None:
        """Write `data` to the command's standard input."""
        with translate_eof():
            self._session.sendall(data)

    def end_input(self) -> None:
        """Close the command's standard input."""
        with translate_eof():
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
        with contextlib.suppress(EOFError):  # already closed with its connection
            self._session.close()

    def _read_stderr(self) -> bytes:
        with contextlib.suppress(OSError):
            return self._session.recv_stderr(PIECE)
        return b""


def connect_ssh(host: Host) -> SshConnection:
    """Open the SSH connection that `host`'s variables, then ssh's configuration, describe.

    One that is refused or reset is tried again for `START_PATIENCE`. Raises UnreachableError, or
    its HostKeyError and AuthenticationError; UsageError where the configuration cannot be followed.
    """
    return SshConnection(host, _connect(host, patience=START_PATIENCE, missing=False))


def _connect(host: Host, *, patience: float, missing: bool) -> fabric.Connection:
    """Open the connection; with `missing` a host that is not there is waited for, too."""
    deadline = time.monotonic() + patience
    options = complete_ssh_options(parse_ssh_options(host))
    password = any(host.get(name) for name in ("ansible_password", "ansible_ssh_pass"))
    target = Target(host=host.name, options=options, password=password)
    hops = (*(options.jumps or ()), options)
    connection: Any = _open_hops(target, hops, deadline, missing=missing)
    return connection


def try_login(target: Target) -> None:
    """Log in to a machine, a jump host or a host, and leave; raises UnreachableError."""
    hops = (*(target.options.jumps or ()), target.options)
    _close_hops(_open_hops(target, hops))


def fetch_host_key(target: Target) -> OfferedKey:
    """Return the key that the machine shows; logs in to the jump hosts on the way, not to it.

    Raises UnreachableError, for a jump host too.
    """
    connection: fabric.Connection | Literal[False] = False
    try:
        connection = _open_hops(target, target.options.jumps or ())
        return read_offered_key(_dial(target.options, connection), target)
    except UnreachableError:
        raise
    except Exception as error:  # as in _open_hop_once
        raise _translate_error(target, error) from error
    finally:
        _close_hops(connection)


def _open_hops(
    target: Target,
    hops: Sequence[SshOptions],
    deadline: float | None = None,
    *,
    missing: bool = False,
) -> fabric.Connection | Literal[False]:
    """Open a connection through each of `hops` to the next, and return the last one.

    The hops are the jump hosts of `target`, and itself if it is to be logged in to; False without
    any. After an error, none of them stays open.
    """
    config = fabric.Config(ssh_config=paramiko.SSHConfig())
    connection: fabric.Connection | Literal[False] = False
    try:
        for at, hop in enumerate(hops):
            connection = _build_hop(hop, config, connection)
            last = hop is target.options
            step = replace(
                target,
                options=replace(hop, jumps=tuple(hops[:at])),
                jump=target.jump or not last,
                password=target.password and last,
            )
            _open_hop(connection, step, deadline, missing=missing)
    except BaseException:
        _close_hops(connection)
        raise
    return connection


def _dial(options: SshOptions, gateway: fabric.Connection | Literal[False]) -> Any:
    port = options.port or paramiko.config.SSH_PORT
    if gateway is False:
        return dial_tcp(options.address, port, options.family)
    return gateway.transport.open_channel(
        "direct-tcpip", (options.address, port), ("127.0.0.1", 0), timeout=CONNECT_TIMEOUT
    )


def _close_hops(connection: fabric.Connection | Literal[False]) -> None:
    hop: Any = connection
    while isinstance(hop, fabric.Connection):
        hop.close()
        hop = hop.gateway


def _build_hop(
    options: SshOptions, config: fabric.Config, gateway: fabric.Connection | Literal[False]
) -> fabric.Connection:
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
            "allow_agent": options.agent and not options.identities_only,
            "look_for_keys": not (options.identities_only and options.identity_files),
            "disabled_algorithms": list_disabled_algorithms(options),
        },
    )
    check_host_keys(connection, options)
    return connection


def _open_hop(
    connection: fabric.Connection,
    target: Target,
    deadline: float | None = None,
    *,
    missing: bool = False,
) -> None:
    """Open the connection, those before it being open; raises UnreachableError.

    Without a `deadline` it is tried for `START_PATIENCE`.
    """
    if deadline is None:
        deadline = time.monotonic() + START_PATIENCE
    pause = FIRST_PAUSE
    while True:
        try:
            return _open_hop_once(connection, target)
        except UnreachableError as error:
            passing = _is_passing(error.__cause__, missing=missing)
            if not passing or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause *= 2


def _is_passing(reason: BaseException | None, *, missing: bool) -> bool:
    """Return whether a connection that failed for `reason` may succeed a moment later.

    An sshd that restarts refuses; one with too many callers (MaxStartups) hangs up before its
    banner. With `missing`, a host that is not there may be back soon.
    """
    match reason:
        case ConnectionRefusedError() | ConnectionResetError() | BrokenPipeError() | EOFError():
            return True
        case paramiko.ChannelException():
            return bool(reason.code == CONNECT_FAILED)
        case paramiko.SSHException():
            return "protocol banner" in str(reason)  # paramiko's words
        case TimeoutError():
            return missing
        case OSError():
            return missing and reason.errno in NO_ROUTE
    return False


def _open_hop_once(connection: fabric.Connection, target: Target) -> None:
    began = time.monotonic()
    try:
        connection.connect_kwargs |= _choose_keys(target.options)
        if target.options.agent_socket and connection.connect_kwargs["allow_agent"]:
            connection.client._agent = open_agent(target.options.agent_socket)  # noqa: SLF001 - Paramiko asks no other
        _open_transport(connection, target.options.family)
    except UnreachableError:
        raise
    except Exception as error:  # Paramiko and its libraries raise a dozen kinds
        waited_out = time.monotonic() - began > CONNECT_TIMEOUT * 0.9  # Paramiko names it variously
        if waited_out and connection.gateway is False and (silent := errors.find_starved(target)):
            raise silent from error
        raise _translate_error(target, error) from error
    finally:
        close_agent(connection.connect_kwargs.get("pkey"))


def _choose_keys(options: SshOptions) -> dict[str, Any]:
    """Return the keys of `options` for Paramiko: files, and one that the agent has for a file."""
    agent, agent_socket = options.agent, options.agent_socket
    identity, files = choose_identity(
        options.identity_files, agent=agent, agent_socket=agent_socket
    )
    if options.identities_only and not options.identity_files:
        identity = find_usual_identity(agent=agent, agent_socket=agent_socket)
    keys: dict[str, Any] = {"key_filename": list(files)} if files else {}
    return keys | ({"pkey": identity} if identity else {})


def _open_transport(connection: fabric.Connection, family: str = "any") -> None:
    if isinstance(connection.gateway, fabric.Connection):
        connection.open()
    else:
        with contextlib.ExitStack() as opened:
            sock = opened.enter_context(dial_tcp(connection.host, connection.port, family))
            connection.connect_kwargs["sock"] = sock
            connection.open()
            opened.pop_all()  # it is the connection's now
    connection.transport.set_keepalive(KEEPALIVE)


def _translate_error(target: Target, error: Exception) -> UnreachableError:
    keys = target.options.identity_files
    match error:
        case HostKeyRefusedError() | SecurityKeyError():
            return error.translate(target)
        case paramiko.PasswordRequiredException():
            return errors.build_passphrase_error(target)
        case paramiko.AuthenticationException():
            return errors.build_login_error(target)
        case paramiko.SSHException() if "No authentication methods" in str(
            error
        ):  # paramiko's words
            return errors.build_no_key_error(target)
        case paramiko.SSHException() if "private key file" in str(error):
            return errors.build_key_file_error(target, " ".join(keys), str(error))
        case OSError(filename=str(file)) if file in keys:
            return errors.build_key_file_error(target, file, error.strerror or str(error))
        case OSError() | EOFError():
            return errors.build_connection_error(target, _format_exception(error))
    return errors.build_protocol_error(target, _format_exception(error))


def _format_exception(error: Exception) -> str:
    return str(error) or type(error).__name__
