"""Detect files that a tool has encrypted: by their first bytes, or by values in their YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass

ENCRYPTED = "is encrypted with"  # in every message about such a file
ELSEWHERE = "keep the secret out of the file: {from_file: PATH}, or \"{{ lookup('env', 'NAME') }}\""
SOPS_VALUE = re.compile(rb"ENC\[AES256_GCM,data:")
SOPS_SECTION = re.compile(
    rb'^(?:\s*"sops"\s*:|sops:|\[sops\]|sops_)|[{,]\s*"sops"\s*:', re.MULTILINE
)
# A message to a key or for a passphrase, not armoured: RFC 4880, 4.2, 5.1 and 5.3.
PGP_PACKET = re.compile(rb"(?:\x84.|\x85..|\xc1.{1,2})\x03|[\x8c\xc3].\x04", re.DOTALL)
BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?\s*")  # what an editor may leave before the first line


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """A tool that encrypts files, and the fix."""

    tool: str
    fix: str

    @property
    def problem(self) -> str:
        """The message about a file, without its subject."""
        return f"{ENCRYPTED} {self.tool}"


VAULT = Encryption(tool="ansible-vault", fix=ELSEWHERE)
SOPS = Encryption(
    tool="sops", fix=f"decrypt it on this machine: sops decrypt -i FILE; or {ELSEWHERE}"
)
GIT_CRYPT = Encryption(tool="git-crypt", fix="unlock the repository: git-crypt unlock")
AGE = Encryption(
    tool="age",
    fix=f"decrypt it on this machine: age --decrypt -i KEY -o PLAIN FILE; or {ELSEWHERE}",
)
GNUPG = Encryption(
    tool="GnuPG",
    fix=f"decrypt it on this machine: gpg --output PLAIN --decrypt FILE; or {ELSEWHERE}",
)
OPENSSL = Encryption(
    tool="openssl, as transcrypt does",
    fix=f"unlock the repository: transcrypt; or {ELSEWHERE}",
)
BEGINS = (
    (b"$ANSIBLE_VAULT;", VAULT),
    (b"\0GITCRYPT\0", GIT_CRYPT),
    (b"age-encryption.org/", AGE),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", AGE),
    (b"-----BEGIN PGP MESSAGE-----", GNUPG),
    (b"Salted__", OPENSSL),
    (b"U2FsdGVkX1", OPENSSL),  # the same in base64
)


def find_encryption(content: bytes) -> Encryption | None:
    """Return what encrypted a file of this content, or None."""
    start = BEFORE.match(content)
    for begin, tool in BEGINS:
        if content.startswith(begin, start.end() if start else 0):
            return tool
    if PGP_PACKET.match(content):
        return GNUPG
    return SOPS if SOPS_VALUE.search(content) and SOPS_SECTION.search(content) else None
