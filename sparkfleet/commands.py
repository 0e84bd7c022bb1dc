"""Commands as values, and the one function that quotes them for a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

PARTS = "sparkfleet.onhost.shared."
IMPORT = re.compile(rf"^from {re.escape(PARTS)}(\w+) import ", re.MULTILINE)
MODULE = """\
m=sys.modules[{name!r}]=types.ModuleType({name!r})
exec(compile({text!r},{name!r},'exec'),m.__dict__)
"""
NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run on a host.

    `stdin` is sent first and whole. A secret goes there: `argv` and `env` are visible to every
    user of the host while the command runs, and are logged.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: NO_ENV)
    stdin: bytes = field(default=b"", repr=False)

    @property
    def program(self) -> str:
        """The text of Python that it runs, if it is that alone: then a fork of one can run it."""
        plain = not self.env and self.argv[:2] == ("python3", "-c") and len(self.argv) == 3
        return self.argv[2] if plain else ""

    def line(self) -> str:
        """Return the command as one line that a POSIX shell splits back into the same words."""
        argv = self.argv
        if self.env:
            argv = ("env", *(f"{name}={value}" for name, value in self.env.items()), *argv)
        return quote(argv)


def quote(argv: Iterable[str]) -> str:
    """Return `words` as shell text that a POSIX shell splits back byte for byte."""
    return " ".join(shlex.quote(word) for word in argv)


def quote_folded(argv: Iterable[str]) -> str:
    """Return `words` as shell text with one option a line, for scripts that people read.

    A line break stands before each word that begins with a dash, and nowhere else.
    """
    text = ""
    for word in argv:
        text += (" \\\n    " if word.startswith("-") else " ") + shlex.quote(word)
    return text.lstrip()


def build_shell_command(name: str, *arguments: str) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.sh` on a host, with `arguments`."""
    text = (resources.files("sparkfleet.onhost") / f"{name}.sh").read_text(encoding="utf-8")
    return Command(argv=("sh", "-c", text, f"{PurePosixPath(name).name}.sh", *arguments))


def build_script_command(
    name: str, request: Mapping[str, Any], *, python: Sequence[str] = ("python3",)
) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.py` on a host, by the words `python`.

    The program travels on stdin, with the modules of `sparkfleet/onhost/shared` that it imports, so
    nothing is installed there: Python reads its own length of source, then the program reads
    `request` as the next line of JSON and the rest as payload.
    """
    source = _bundle_program(name)
    request_line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    loader = f"import sys;exec(compile(sys.stdin.buffer.read({len(source)}),'{name}.py','exec'))"
    return Command(argv=(*python, "-c", loader), stdin=source + request_line)


def build_multiplexer_command() -> Command:
    """Return the command that runs `onhost/multiplexer.py`, which takes frames from stdin on.

    Unlike a script it must not read ahead, so that its source is read byte by counted byte.
    """
    source = _bundle_program("transport/multiplexer")
    read_loop = f"while len(s)<{len(source)}:s+=os.read(0,{len(source)}-len(s))or exit(1)"
    loader = f"import os;s=b''\n{read_loop}\nexec(compile(s,'multiplexer.py','exec'))"
    return Command(argv=("python3", "-c", loader), stdin=source)


def _bundle_program(name: str) -> bytes:
    """Return the text of a program, which brings along the parts that it imports."""
    text = _read_onhost_file(f"{name}.py")
    parts = dict.fromkeys(_list_shared_modules(text))
    if not parts:
        return text.encode()
    modules = "".join(
        MODULE.format(name=PARTS + part, text=_read_shared_module(part)) for part in parts
    )
    return f"import sys,types\n{modules}exec(compile({text!r},'{name}.py','exec'))\n".encode()


def _list_shared_modules(text: str) -> Iterator[str]:
    """Yield the parts that `text` imports, each after those that it imports itself."""
    for part in IMPORT.findall(text):
        yield from _list_shared_modules(_read_shared_module(part))
        yield part


def _read_shared_module(name: str) -> str:
    return _read_onhost_file(f"shared/{name}.py")


def _read_onhost_file(path: str) -> str:
    return resources.files("sparkfleet.onhost").joinpath(path).read_text(encoding="utf-8")
