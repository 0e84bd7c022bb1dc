"""An address and a port to serve at, as `page` of the inventory and `--bind` have it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from sparkfleet.values import parse_digits

PORT = 8090
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The address and the port that the page is served at; port 0 is any free one."""

    address: str = LOOPBACK
    port: int = PORT

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


def parse_binding(text: str) -> Binding:
    """Return the binding in ADDRESS:PORT, ADDRESS or :PORT; raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        address = ipaddress.ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise ValueError(f"expected an IP address and a port (got {text!r})") from None
    number = parse_digits(port)
    if number is None or number >= 1 << 16:
        raise ValueError(f"expected a port from 0 to 65535 (got {port!r})")
    return Binding(address=str(address), port=number)
