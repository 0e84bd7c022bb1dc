"""Secrets in texts that are kept or sent: tokens, passwords and keys become ``(secret)``."""

from __future__ import annotations

import re

from sparkfleet.variables.secret import VEIL

# A pattern begins only where a word does: else the length of a hostile line would be squared.
_WORDS = r"(?:token|key|secret|password|passwd|passphrase|(?<=[_-])pass|credentials?)"
_MANY = r"(?:api_?key|access_?key|secret|password|credential)s"  # a list; other plurals are counts
_QUOTE = r"(?:\\{0,8}[\"'])"  # in a log that JSON quotes, perhaps twice, a quote has backslashes
_IS = r"\s*(?:=>|[=:](?!>)|%3d|\\u003d)\s*"
_QUOTED = rf"(?P<quote>{_QUOTE})(?:(?!(?P=quote))(?:\\.|[^\n]))+"
_LIST = r"[\[(][^\])\n]{1,4000}"
_BLOCK = r"[|>][+-]?[ \t]*\n[ \t]+\S[^\n]*"  # of YAML: the value is in the next line
_ITEMS = r"-[ \t]+[^\n]+(?:\n[ \t]*-[ \t]+[^\n]+)*"
_BARE = r"[^\s\"',;}\]]+"
_VALUE = rf"(?!(?:- )?\(secret\)|{_QUOTE}\(secret\))(?:{_QUOTED}|{_LIST}|{_BLOCK}|{_ITEMS}|{_BARE})"
PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(?=-----END|\Z)",
        r"(?P<kept>://)[^\s/@]+(?=@)",  # https://user:password@host
        # https://hooks.slack.com/..., https://discord.com/api/webhooks/..., https://chat/hooks/...
        (
            r"(?P<kept>\bhttps?://(?:[\w.-]{0,100}hooks?\.[\w.-]+/|[^\s/\"']{1,200}/(?:\w{1,20}/)?"
            r"(?:web)?hooks?/))[^\s\"'<>]+"
        ),
        r"(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}",
        r"(?P<kept>\b(?:set-)?cookie:\s*)[^\n\"']+",
        # known by their beginning; the last is a JSON Web Token
        (
            r"(?P<kept>\b)(?:(?:hf|sk|gh[opsur]|github_pat|glpat|xox[a-z]|xapp|nvapi)[_-][\w-]{10,}"
            r"|eyJ[\w-]{10,}\.eyJ[\w-]+\.[\w-]+)"
        ),
        rf"(?P<kept>(?<![\w-])[\w-]*(?:{_WORDS}|{_MANY}){_QUOTE}?{_IS}){_VALUE}",
        rf"(?P<kept>(?<![\w-])--[\w-]*{_WORDS}\s+(?!--)){_VALUE}",  # --api-key ...
        # {"name": "HF_TOKEN", "value": "..."}, and "auth": "..." of Docker's config.json
        rf"(?P<kept>(?<![\w-])[\w-]*{_WORDS}{_QUOTE}?,?\s+{_QUOTE}?value{_QUOTE}?{_IS}){_VALUE}",
        rf"(?P<kept>{_QUOTE}auth{_QUOTE}\s*:\s*){_QUOTED}",
        # "--api-key", "..." of a list of words
        rf"(?P<kept>{_QUOTE}--[\w-]*{_WORDS}{_QUOTE},\s*(?!{_QUOTE}--)){_QUOTED}",
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
        text = pattern.sub(_mask, text)
    return text


def _mask(match: re.Match[str]) -> str:
    quote = match.groupdict().get("quote") or ""
    return f"{match['kept']}{quote}{VEIL}"
