"""A file that was checked to be text, and that can point at its own lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from yaml.reader import Reader

from sparkfleet.errors import InputError, Where
from sparkfleet.unreadable_files import LFS_POINTER, UTF_16, refuse_endless_file
from sparkfleet.yaml.encryption import find_encryption

MAX_BYTES = 1_000_000  # 2 s of a slow processor; an inventory of 1,000 hosts has half
MAX_EXCERPT = 120  # characters of a line that a message shows
# A line that is not shown
PASSWORD = re.compile(
    r"ansible_(become_|sudo_|ssh_)?pass"
    r"|(?:\b|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Z_]*[\"']?\s*[:=]"
    r"|(?i:\b(?:api[-_]key|hf[-_]token)[\"']?\s*[:=,\s])"  # vLLM's options, also among words
)
HTML = re.compile(rb"(?i)(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)\b")
CONFLICT = tuple(map(re.compile, ("(?m)^<{7} ", "(?m)^={7}\r?$", "(?m)^>{7} ")))
LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # libyaml's line ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of a file, under the name the user gave it."""

    file: str
    text: str
    lines: tuple[str, ...]

    def where(self, line: int, col: int | None = None) -> Where:
        """Return the place at `line` and `col`, both from 1, with its excerpt, but no password."""
        text = self.lines[line - 1] if line <= len(self.lines) else None
        hidden = text is None or (col or 1) > MAX_EXCERPT or PASSWORD.search(text)
        excerpt = None if hidden or text is None else text[:MAX_EXCERPT]
        return Where(file=self.file, line=line, col=col, excerpt=excerpt)


def read_source_file(
    path: str | Path,
    *,
    error: type[InputError] = InputError,
    html: bool = False,
    missing: str | None = None,
) -> Source:
    """Return the text of the file at `path`; raises `error` where it cannot be read as text.

    With `html` it may be a page of HTML, as a template can be. `missing` is the hint for a file
    that is not there.
    """
    try:
        refuse_endless_file(Path(path))
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as failure:
        raise error("not found", where=Where(file=str(path)), hint=missing) from failure
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise error(f"cannot be read: {reason}", where=Where(file=str(path))) from failure
    return decode_source(content, file=str(path), error=error, html=html)


def decode_source(
    content: str | bytes, *, file: str, error: type[InputError] = InputError, html: bool = False
) -> Source:
    """Return `content` as a source; raises `error` if it is binary, not UTF-8 or above 1 MB."""
    if len(content) > MAX_BYTES:
        raise error(f"the file is larger than {MAX_BYTES // 1_000_000} MB", where=Where(file=file))
    encoded = content.encode() if isinstance(content, str) else content
    _refuse_other_content(encoded, file, error)
    if not html and HTML.match(encoded):
        problem = "the file is an HTML page, not the file itself"
        where = Where(file=file, line=1, col=1)
        raise error(problem, where=where, hint="download the raw file")
    text = content if isinstance(content, str) else _decode_utf8(content, file, error)
    text = text.removeprefix("\ufeff")
    source = Source(file=file, text=text, lines=tuple(LINE_END.split(text)))
    if all(mark.search(text) for mark in CONFLICT):
        first = next(at for at, line in enumerate(source.lines, 1) if line.startswith("<<<<<<< "))
        hint = "keep one side, and delete the lines that begin with <<<<<<<, ======= and >>>>>>>"
        problem = "the file contains an unresolved merge conflict"
        raise error(problem, where=source.where(first, 1), hint=hint)
    if odd := Reader.NON_PRINTABLE.search(text):
        raise error(
            f"the file is not text: it contains the character {odd[0]!r}",
            where=_locate_end(text[: odd.start()], file),
            hint="save it as UTF-8 text, or delete the character",
        )
    return source


def _refuse_other_content(content: bytes, file: str, error: type[InputError]) -> None:
    """Raise `error` for content that a tool has put in place of the text."""
    where = Where(file=file, line=1, col=1)
    if (encryption := find_encryption(content)) is not None:
        raise error(f"the file {encryption.problem}", where=where, hint=encryption.fix)
    if content.startswith(LFS_POINTER):
        problem = "the file is a Git LFS pointer, not the file itself"
        raise error(problem, where=where, hint="in its folder: git lfs pull")
    if content.startswith(UTF_16):
        problem = "the file is UTF-16 text, not UTF-8"
        raise error(problem, where=where, hint=f"convert it: iconv -f UTF-16 -t UTF-8 {file} > NEW")


def _decode_utf8(content: bytes, file: str, error: type[InputError]) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as failure:
        odd = failure.object[failure.start]
        raise error(
            f"the file is not UTF-8 text: byte 0x{odd:02x} at offset {failure.start}",
            where=_locate_end(content[: failure.start].decode("utf-8"), file),
            hint="save it as UTF-8 text",
        ) from failure


def _locate_end(text: str, file: str) -> Where:
    """Return the place after `text`, without an excerpt: a terminal might obey it."""
    *before, last = LINE_END.split(text)
    return Where(file=file, line=len(before) + 1, col=len(last) + 1)
