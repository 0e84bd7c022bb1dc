"""Commands as values, and the one function that quotes them for a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any

NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run on a host.

    `stdin` is sent first and whole. A secret goes there: `argv` and `env` are visible to every
    user of the host while the command runs, and are logged.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: NO_ENV)
    stdin: bytes = b""

    def line(self) -> str:
        """Return the command as one line that a POSIX shell splits back into the same words."""
        words = self.argv
        if self.env:
            words = ("env", *(f"{name}={value}" for name, value in self.env.items()), *words)
        return quote(words)


def quote(words: Iterable[str]) -> str:
    """Return `words` as shell text that a POSIX shell splits back byte for byte."""
    return " ".join(shlex.quote(word) for word in words)


def folded(words: Iterable[str]) -> str:
    """Return `words` as shell text with one option a line, for scripts that people read.

    A line break stands before each word that begins with a dash, and nowhere else.
    """
    text = ""
    for word in words:
        text += (" \\\n    " if word.startswith("-") else " ") + shlex.quote(word)
    return text.lstrip()


def shell_script(name: str, *arguments: str) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.sh` on a host, with `arguments`."""
    text = (resources.files("sparkfleet.onhost") / f"{name}.sh").read_text(encoding="utf-8")
    return Command(argv=("sh", "-c", text, f"{name}.sh", *arguments))


def script(
    name: str, request: Mapping[str, Any], *, python: Sequence[str] = ("python3",)
) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.py` on a host, by the words `python`.

    The program travels on stdin, so nothing is installed there: Python reads its own length of
    source, then the program reads `request` as the next line of JSON and the rest as payload.
    """
    source = (resources.files("sparkfleet.onhost") / f"{name}.py").read_bytes()
    ask = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    loader = f"import sys;exec(compile(sys.stdin.buffer.read({len(source)}),'{name}.py','exec'))"
    return Command(argv=(*python, "-c", loader), stdin=source + ask)
