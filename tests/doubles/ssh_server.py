"""SSH servers on this machine, which let a known key in and forward connections as a gateway does.

Commands are not run: `hosts.trust` and `hosts.authorize` need host keys and logins only.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import Self

import paramiko

SUCCEEDED = paramiko.common.OPEN_SUCCEEDED


@dataclass(slots=True, kw_only=True)
class SshServer:
    """A server with one host key; `authorized` are the keys that it lets in, as base64."""

    host_key: paramiko.PKey = field(default_factory=paramiko.ECDSAKey.generate)
    authorized: set[str] = field(default_factory=set)
    logins: list[str] = field(default_factory=list)
    port: int = 0
    _listener: socket.socket | None = None
    _transports: list[paramiko.Transport] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for transport in self._transports:
            transport.close()

    @property
    def line(self) -> str:
        """The line of known_hosts for this server."""
        kind = self.host_key.get_name()
        return f"[127.0.0.1]:{self.port} {kind} {self.host_key.get_base64()}\n"

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.host_key)
            self._transports.append(transport)
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                transport.start_server(event=threading.Event(), server=_Rules(self, transport))


class _Rules(paramiko.ServerInterface):
    def __init__(self, server: SshServer, transport: paramiko.Transport) -> None:
        self._server = server
        self._transport = transport

    def get_allowed_auths(self, username: str) -> str:
        del username
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if key.get_base64() not in self._server.authorized:
            return paramiko.common.AUTH_FAILED
        self._server.logins.append(username)
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        del chanid, origin
        threading.Thread(target=self._forward, args=(destination,), daemon=True).start()
        return SUCCEEDED

    def _forward(self, destination: tuple[str, int]) -> None:
        channel = self._transport.accept(20)
        if channel is None:
            return
        with socket.create_connection(destination) as target:
            pumps = [
                threading.Thread(target=_pump, args=pair, daemon=True)
                for pair in ((channel, target), (target, channel))
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()


def _pump(source: socket.socket | paramiko.Channel, sink: socket.socket | paramiko.Channel) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError, EOFError):
        sink.shutdown(socket.SHUT_WR)
