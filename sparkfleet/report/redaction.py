"""Secrets in texts that are kept or sent: tokens, passwords and keys become ``(secret)``."""

from __future__ import annotations

import base64
import binascii
import re

from sparkfleet.variables.secret import VEIL

# A pattern begins only where a word does: else the length of a hostile line would be squared.
_WORDS = (
    r"(?:token|key|secret|password|passwd|passphrase|credentials?|_authToken"
    r"|(?<=[_-])(?:pass|pwd|psk)|(?<=gh[_-])pat|(?<=github[_-])pat|(?<=gitlab[_-])pat)"
)
_MANY = r"(?:api_?key|access_?key|secret|password|credential)s"  # a list; other plurals are counts
# In a log that JSON quotes, perhaps twice, a quote has backslashes; the last are of JSON and HTML
_QUOTE = r"(?:\\{0,8}[\"']|\\{1,8}u002[27]|&quot;|&#3[49];)"
_SIGN = r"[=:\uff1d\uff1a](?!>)|%(?:25){0,3}3[ad]|\\u003[ad]|&#61;"  # two are of full width
_IS = rf"\s*(?:=>|{_SIGN})\s*"
_QUOTED = rf"\$?(?P<quote>{_QUOTE})(?:(?!(?P=quote))(?:\\.|[^\n]))+"
_LIST = r"[\[(][^\])\n]{1,4000}"
# of YAML: the value is in the next lines
_BLOCK = r"[|>][+-]?[ \t]*\n(?P<indent>[ \t]+)\S[^\n]*(?:\n(?P=indent)[^\n]*)*"
_ITEMS = r"-[ \t]+[^\n]+(?:\n[ \t]*-[ \t]+[^\n]+)*"
_BARE = r"[^\s\"',;}\]\x00]+"
_VALUE = rf"(?!(?:- )?\(secret\)|{_QUOTE}\(secret\))(?:{_QUOTED}|{_LIST}|{_BLOCK}|{_ITEMS}|{_BARE})"
_NAME = r"(?<![\w-])[\w-]*"
_SCHEMES = r"(?:bearer|basic|digest|token|apikey|negotiate)"
# Each with a text without which it is not tried, in lower case: "" where there is no such text.
PATTERNS = tuple(
    (needle, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for needle, pattern in (
        (
            "private key",
            r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(?=-----END|\Z)",
        ),
        # https://user:password@host, also encoded
        ("://", r"(?P<kept>://)[^\s/\"'<>`]+(?=@)"),
        ("%3a%2f%2f", r"(?P<kept>%3a%2f%2f)(?:(?!%2f|%40)[^\s/@]){1,500}(?=%40)"),
        # proxy=user:password@host
        (
            "proxy",
            (
                rf"(?P<kept>{_NAME}proxy{_QUOTE}?(?:{_IS}|\s+){_QUOTE}?)[^\s/@:\"']{{1,99}}"
                r":[^\s/@\"']{1,200}(?=@)"
            ),
        ),
        # https://hooks.slack.com/..., https://discord.com/api/webhooks/..., https://chat/hooks/...
        (
            "hook",
            (
                r"(?P<kept>\bhttps?://(?:[\w.-]{0,100}hooks?\.[\w.-]+/|[^\s/\"']{1,200}/"
                r"(?:\w{1,20}/)?(?:web)?hooks?/))[^\s\"'<>]+"
            ),
        ),
        # of a signed URL
        ("sig", r"(?P<kept>[?&;](?:x-(?:amz|goog)-)?(?:signature|sig)=)[^\s&\"'<>]+"),
        (
            "authorization",
            (
                rf"(?P<kept>\bauthorization{_QUOTE}?{_IS}{_QUOTE}?{_SCHEMES}\s+)"
                r"(?!\(secret\))[^\s\"',;]+"
            ),
        ),
        ("bearer", r"(?P<kept>\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}"),
        ("basic", r"(?P<kept>\bbasic\s+)[A-Za-z0-9._~+/=-]{6,}"),
        ("cookie", r"(?P<kept>\b(?:set-)?cookie:\s*)[^\n\"']+"),
        # known by their beginning; the last is a JSON Web Token
        (
            "",
            (
                r"(?P<kept>\b)(?:(?:hf|sk|gh[opsur]|github_pat|glpat|xox[a-z]|xapp|nvapi|npm|pypi)"
                r"[_-][\w-]{10,}|(?-i:A(?:KIA|SIA|ROA)[0-9A-Z]{16}|AIza[\w-]{30,})"
                r"|eyJ[\w-]{10,}\.eyJ[\w-]+\.[\w-]+)"
            ),
        ),
        # "HF_TOKEN=a b" of a list of variables
        (
            "=",
            (
                rf"(?P<kept>(?P<around>{_QUOTE})[\w-]*{_WORDS}=)(?!\(secret\))"
                r"(?:(?!(?P=around))(?:\\.|[^\n]))+(?=(?P=around))"
            ),
        ),
        # ("HF_TOKEN", "...") of Python, not two names of such
        (
            "(",
            (
                rf"(?P<kept>\(b?{_QUOTE}[\w-]*{_WORDS}{_QUOTE},\s*b?"
                rf"(?!{_QUOTE}[\w-]*{_WORDS}{_QUOTE}))(?!{_QUOTE}\(secret\)){_QUOTED}"
            ),
        ),
        # <token>...</token>
        (
            "</",
            (
                rf"(?P<kept><(?!key\b)[\w:.-]{{0,99}}{_WORDS}(?:\s[^<>]{{0,200}})?>)"
                r"(?!\(secret\))[^<]+(?=</)"
            ),
        ),
        # setenv HF_TOKEN ..., set -x HF_TOKEN ..., and .netrc
        (
            "set",
            rf"(?P<kept>\b(?:setenv|set\s+-\w{{0,3}}x\w{{0,3}})\s+[\w-]*{_WORDS}\s+){_VALUE}",
        ),
        (
            "login",
            (
                r"(?P<kept>\b(?:machine\s+\S{1,255}|default)\s+login\s+\S{1,255}\s+"
                r"(?:account\s+\S{1,255}\s+)?password\s+)(?!\(secret\))\S+"
            ),
        ),
        ("pass", rf"(?P<kept>\b(?:password|passphrase)\s+)(?!{_QUOTE}\(secret\)){_QUOTED}"),
        # an entry of a list whose name is HF_TOKEN, and whose value follows
        ("value", rf"(?P<kept>{_NAME}{_WORDS}{_QUOTE}?,?\s+{_QUOTE}?value{_QUOTE}?{_IS}){_VALUE}"),
        ("", rf"(?P<kept>{_NAME}(?:{_WORDS}|{_MANY}){_QUOTE}?{_IS}){_VALUE}"),
        ("--", rf"(?P<kept>(?<![\w-])--[\w-]*{_WORDS}\s+(?!--)){_VALUE}"),  # --api-key ...
        # "auth": "..." of Docker's config.json, _auth=... of .npmrc
        ("auth", rf"(?P<kept>{_QUOTE}auth{_QUOTE}\s*:\s*){_QUOTED}"),
        ("_auth", rf"(?P<kept>(?<!\w)_auth{_IS}){_VALUE}"),
        # "--api-key", "..." of a list of words
        ("--", rf"(?P<kept>{_QUOTE}--[\w-]*{_WORDS}{_QUOTE},\s*(?!{_QUOTE}--)){_QUOTED}"),
    )
)
KEY_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY")
KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{1,100}\r?")
# In a line with one of these programs, these options have a password behind them.
PROGRAMS = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (
            "curl",
            r"(?P<kept>(?<![\w-])(?:-u|-U|--user|--proxy-user)[\s=\"',]{0,9}[^\s:\"',]{1,99}:)[^\s\"',]+",
        ),
        (
            "login",
            (
                r"(?P<kept>\b(?:docker|podman|nerdctl|skopeo|buildah|oras|helm|registry)[\s\"',]{1,9}"
                r"login\b.{0,400}?[\s\"']-p[\s=\"',]{0,9})(?!\(secret\))[^\s\"',]+"
            ),
        ),
        ("sshpass", r"(?P<kept>\bsshpass[\s\"',]{1,9}-p[\s\"',]{0,9})(?!\(secret\))[^\s\"',]+"),
    )
)
PLAIN_AUTH = re.compile(r"(?P<kept>\bauth:\s+)(?P<coded>[A-Za-z0-9+/]{4,400}={0,2})(?![\w+/=])")


ASSIGNMENT = re.compile(
    r"(\b\w*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Z_]{0,64}=)[^\s\"',\]]+"
)


def redact_assignments(text: str) -> str:
    """Return `text` with the values of variables like HF_TOKEN=... masked, and nothing else."""
    return ASSIGNMENT.sub(rf"\1{VEIL}", text)


def redact_secrets(text: str) -> str:
    """Return `text` with what looks like a secret masked."""
    lower = text.lower()
    for needle, pattern in PATTERNS:
        if needle in lower:
            text = pattern.sub(_mask, text)
    text = PLAIN_AUTH.sub(_mask_coded, _mask_key_ends(text))
    for word, pattern in PROGRAMS:
        if word in text:
            lines = text.split("\n")
            text = "\n".join(pattern.sub(_mask, line) if word in line else line for line in lines)
    return text


def _mask(match: re.Match[str]) -> str:
    quote = match.groupdict().get("quote") or ""
    return f"{match['kept']}{quote}{VEIL}"


def _mask_coded(match: re.Match[str]) -> str:
    """Mask Base64 of a user and a password, as ``auth`` of a registry has it."""
    try:
        plain = base64.b64decode(match["coded"], validate=True)
    except binascii.Error:
        return match[0]
    return _mask(match) if b":" in plain and plain.isascii() else match[0]


def _mask_key_ends(text: str) -> str:
    """Mask the lines of private keys whose beginning was cut off."""
    masked = []
    begin = 0
    for end in KEY_END.finditer(text):
        lines = text[begin : end.start()].split("\n")
        keep = len(lines) - 1
        while keep and KEY_LINE.fullmatch(lines[keep - 1]):
            keep -= 1
        if keep < len(lines) - 1:
            lines[keep:] = [VEIL, lines[-1]]
        masked += ["\n".join(lines), end[0]]
        begin = end.end()
    return "".join(masked) + text[begin:]
