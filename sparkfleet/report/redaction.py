"""Secrets in texts that are kept or sent: tokens, passwords and keys become ``(secret)``."""

from __future__ import annotations

import re

from sparkfleet.variables.secret import VEIL

# A pattern begins only where a word does: else the length of a hostile line would be squared.
_WORDS = "(?:token|key|secret|password|passwd|credentials?)"
PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)",
        r"(://)[^\s/@]+(?=@)",  # https://user:password@host
        r"(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}",
        r"(\b)(?:hf|sk|ghp|gho|glpat|xox[abp]|nvapi)[_-][\w-]{10,}",  # known by their beginning
        rf"""((?<![\w-])[\w-]*{_WORDS}["']?\s*[=:]\s*["']?)(?!\(secret\))[^\s"',;}}\]]+""",
        rf"((?<![\w-])--[\w-]*{_WORDS}\s+)[^\s-]\S*",  # --api-key ...
    )
)


ASSIGNMENT = re.compile(
    r"(\b\w*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Z_]{0,64}=)[^\s\"',\]]+"
)


def redact_assignments(text: str) -> str:
    """Return `text` with the values of variables like HF_TOKEN=... masked, and nothing else."""
    return ASSIGNMENT.sub(rf"\1{VEIL}", text)


def redact_secrets(text: str) -> str:
    """Return `text` with what looks like a secret masked."""
    for pattern in PATTERNS:
        text = pattern.sub(rf"\1{VEIL}", text)
    return text
