"""known_hosts as OpenSSH reads it (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"); pure but for reading.

A line that cannot be read is passed over, as ssh does; an error about that host then names it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.unreadable_files import UTF_16, explain_unreadable_file

REVOKED = "@revoked"
AUTHORITY = "@cert-authority"
HASHED = "|1|"  # HMAC-SHA1, the only scheme that exists
# characters of a pattern: https://github.com/openssh/openssh-portable/blob/master/match.c
MAX_PATTERN = 1022
BYTE_ORDER_MARK = "\ufeff"  # for ssh a part of the first name
LENGTH = struct.Struct(">I")


class KeyVerdict(Enum):
    """The entry of known_hosts for the key that a host showed."""

    KNOWN = auto()
    UNKNOWN = auto()  # no key of this type
    CHANGED = auto()  # another key of this type
    REVOKED = auto()
    TOO_SMALL = auto()  # an RSA key below RequiredRSASize


@dataclass(slots=True, kw_only=True)
class KnownKeys:
    """The keys of one name, as (type, key) pairs; `remarks` are lines for it that do not count."""

    accepted: list[tuple[str, bytes]] = field(default_factory=list)
    revoked: list[tuple[str, bytes]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        """The types of key that are known, each once."""
        return list(dict.fromkeys(kind for kind, _ in self.accepted))

    def judge(self, kind: str, key: bytes) -> KeyVerdict:
        """Return what the files say of `key`; a revoked key is refused whatever else they say."""
        if (kind, key) in self.revoked:
            return KeyVerdict.REVOKED
        if (kind, key) in self.accepted:
            return KeyVerdict.KNOWN
        return KeyVerdict.CHANGED if kind in self.types else KeyVerdict.UNKNOWN


def read_known_keys(files: Iterable[Path], name: str) -> KnownKeys:
    """Return the keys that `files` have for `name`; a file that cannot be read has none."""
    known = KnownKeys()
    for file in files:
        if why := explain_unreadable_file(file):
            known.remarks.append(f"{file} cannot be read: {why}")
            continue
        for number, line in _read_lines(file, known):
            where = f"{file}:{number}"
            _add_line(known, line, name.lower(), where)
            if line.startswith(BYTE_ORDER_MARK) and matches(line[1:].split(" ")[0], name.lower()):
                known.remarks.append(f"{where} begins with a byte-order mark; save it without")
    return known


def matches(patterns: str, name: str) -> bool:
    """Return whether `name`, in lower case, is one of a line's names: patterns, ``!x``, hashed."""
    if patterns.startswith("|"):
        return _matches_hash(patterns, name)
    found = False
    for pattern in dict.fromkeys(patterns.lower().split(",")):
        wanted = pattern.removeprefix("!")
        if len(wanted) > MAX_PATTERN:
            return False
        if _is_like(name, wanted):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _is_like(name: str, pattern: str) -> bool:
    """Return whether a pattern with ``*`` and ``?`` fits, in a time that grows with its length."""
    first, *rest = pattern.split("*")
    if not rest:
        return _fits(first, name)
    *middle, last = rest
    at, end = len(first), len(name) - len(last)
    if at > end or not (_fits(first, name[:at]) and _fits(last, name[end:])):
        return False
    for piece in middle:
        if (found := _find_piece(piece, name[at:end])) is None:
            return False
        at += found + len(piece)
    return True


def _find_piece(piece: str, text: str) -> int | None:
    """Return where `piece`, which may have ``?``, first fits in `text`."""
    if "?" not in piece:
        found = text.find(piece)
        return None if found < 0 else found
    starts = range(len(text) - len(piece) + 1)
    return next((at for at in starts if _fits(piece, text[at : at + len(piece)])), None)


def _fits(piece: str, text: str) -> bool:
    if "?" not in piece:
        return piece == text
    return len(piece) == len(text) and all(
        wanted in ("?", seen) for wanted, seen in zip(piece, text, strict=True)
    )


def _read_lines(file: Path, known: KnownKeys) -> Iterator[tuple[int, str]]:
    try:
        content = file.read_bytes()
    except OSError:
        return
    if content.startswith(UTF_16):
        known.remarks.append(f"{file}:1 is text in UTF-16; save it as UTF-8")
    for number, line in enumerate(content.split(b"\n"), start=1):
        text = line.decode(errors="replace").strip()
        if text and not text.startswith("#"):
            yield number, text


def _add_line(known: KnownKeys, line: str, name: str, where: str) -> None:
    marker = line.split(maxsplit=1)[0] if line.startswith("@") else ""
    names, *rest = line.removeprefix(marker).split() or ("",)
    if not matches(names, name):
        return
    if marker == AUTHORITY:
        known.remarks.append(f"{where} names a certificate authority, which sparkfleet ignores")
        return
    key = _decode_key(*rest[:2]) if len(rest) > 1 else None
    if key is None or marker not in ("", REVOKED):
        known.remarks.append(f"{where} is not a valid line")
        return
    (known.revoked if marker else known.accepted).append((rest[0], key))


def check_public_key(value: Any) -> str:
    """Return a public key as it may stand in known_hosts or authorized_keys, TYPE BASE64 COMMENT.

    Options before it, and further lines, would let in or trust others. Raises InvalidValueError.
    """
    words = value.split(" ") if isinstance(value, str) and value.isprintable() else []
    if len(words) < 2 or _decode_key(words[0], words[1]) is None:
        raise InvalidValueError("a public key", value)
    return " ".join(words)


def _decode_key(kind: str, text: str) -> bytes | None:
    """Return the key in a line, or None if it is cut or of another type than the line says."""
    try:
        key = base64.b64decode(text, validate=True)
        (length,) = LENGTH.unpack_from(key)
    except (ValueError, struct.error):
        return None
    start = LENGTH.size
    if key[start : start + length] != kind.encode() or not _has_whole_fields(key):
        return None
    return key


def _has_whole_fields(key: bytes) -> bool:
    """Return whether `key` is a row of length-prefixed fields and nothing else (RFC 4253, 6.6)."""
    at = 0
    while at + LENGTH.size <= len(key):
        at += LENGTH.size + LENGTH.unpack_from(key, at)[0]
    return at == len(key)


def _matches_hash(text: str, name: str) -> bool:
    if not text.startswith(HASHED):
        return False
    salt, _, expected = text.removeprefix(HASHED).partition("|")
    try:
        digest = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(digest, base64.b64decode(expected))
    except ValueError:
        return False
