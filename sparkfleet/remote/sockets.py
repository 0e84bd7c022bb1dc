"""The TCP connection under SSH."""

from __future__ import annotations

import contextlib
import errno
import socket

CONNECT_TIMEOUT = 15  # seconds for each further step of SSH
DIAL_TIMEOUT = 6  # seconds for TCP alone, which the kernels do: Linux asks at 0, 1 and 3 s
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)  # of a machine that is not there
DEAD_AFTER = 15  # seconds without an acknowledgement from the host's kernel


class PromptSocket(socket.socket):
    """A TCP connection that sends at once and acknowledges at once.

    Each side of SSH keeps a small packet back until the one before is acknowledged (Nagle), and the
    kernel keeps the acknowledgement back for 40 ms. Without both, on loopback: connecting 66 ms ->
    25, the first command 44 -> 4.
    """

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what has arrived, and let the other side know."""
        data = super().recv(size, flags)
        with contextlib.suppress(OSError):  # closed by another thread
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data


FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}  # of ssh's AddressFamily


def dial_tcp(address: str, port: int, family: str = "any") -> PromptSocket:
    """Return a TCP connection that notices a machine that lost power; raises OSError."""
    sock = _connect_family(address, port, FAMILIES.get(family, socket.AF_UNSPEC))
    prompt = PromptSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    prompt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    prompt.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER * 1000)
    prompt.settimeout(CONNECT_TIMEOUT)
    return prompt


def _connect_family(address: str, port: int, family: socket.AddressFamily) -> socket.socket:
    if family is socket.AF_UNSPEC:
        return socket.create_connection((address, port), timeout=DIAL_TIMEOUT)
    error: OSError | None = None
    for *_, found in socket.getaddrinfo(address, port, family, socket.SOCK_STREAM):
        try:
            return socket.create_connection((str(found[0]), port), timeout=DIAL_TIMEOUT)
        except OSError as failure:
            error = failure
    raise error or OSError(f"{address} has no address of that family")
