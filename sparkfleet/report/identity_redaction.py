"""Redaction of texts that the user may send to others, such as a bug report.

Masks secrets, serial numbers, public addresses, hardware addresses and names of users. Private
addresses stay: a fault of the network cannot be understood without them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from sparkfleet.report.redaction import redact_secrets

SERIAL = re.compile(
    r"""(\b\w*serial(?:[ _]?(?:number|no))?["']?\s*[=:]\s*["']?)[^\s"',;}\]]+""", re.IGNORECASE
)
UUID = re.compile(r"\b(GPU-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
HARDWARE = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)
ADDRESSES = (
    re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"),
    re.compile(r"(?<![\w.:])[0-9a-f:]{2,39}(?![\w:])", re.IGNORECASE),  # checked when it is parsed
)
HOME = re.compile(r"(/home/)[^/\s:\"']+")
SHORTEST_USER = 3  # characters of a name that is masked in running text
SYSTEM_USERS = frozenset({"root", "nvidia", "ubuntu", "dgx"})  # of many machines


def redact_identity(text: str, users: Iterable[str] = ()) -> str:
    """Return `text` with secrets and what identifies its owner masked; `users` are their names."""
    text = redact_secrets(text)
    text = SERIAL.sub(r"\1(serial)", text)
    text = UUID.sub("(uuid)", text)
    text = HARDWARE.sub("(mac)", text)
    for pattern in ADDRESSES:
        text = pattern.sub(lambda match: _mask_public_address(match[0]), text)
    text = HOME.sub(r"\1(user)", text)
    for user in users:
        if len(user) >= SHORTEST_USER and user not in SYSTEM_USERS:
            text = re.sub(rf"(?<![\w.-]){re.escape(user)}(?![\w-])", "(user)", text)
    return text


def _mask_public_address(text: str) -> str:
    try:
        return "(public address)" if ipaddress.ip_address(text).is_global else text
    except ValueError:
        return text
