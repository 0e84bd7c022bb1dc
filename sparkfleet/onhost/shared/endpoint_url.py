"""The URL of an endpoint on its own host."""

from __future__ import annotations

from typing import Any

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - an argument of vLLM
LOOPBACK = "127.0.0.1"


def build_local_url(listens_on: Any, port: int) -> str:
    """Return the URL of an endpoint as its own host reaches it.

    `listens_on` is the address that it was given; an older record does not have one.
    """
    given = isinstance(listens_on, str) and listens_on not in ("", ALL_INTERFACES)
    return f"http://{listens_on if given else LOOPBACK}:{port}"
