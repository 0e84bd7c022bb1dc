"""Commands as values, and the one function that quotes them for a shell."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from sparkfleet.onhost.shared.program_archive import NAME as ARCHIVE_MODULE
from sparkfleet.onhost.shared.program_archive import START

ONHOST = "sparkfleet.onhost"
IMPORT = re.compile(rf"^from ({re.escape(ONHOST)}(?:\.\w+){{2,}}) import ", re.MULTILINE)
ISOLATED_PYTHON = ("python3", "-I", "-S")
# A line break, history of csh, a backslash that fish takes, a quote within quotes.
UNPORTABLE = re.compile(r'[\n!]|\\[\\\']|"\'"')
RUN_WORDS = (
    "import base64,json,os,sys;a=json.loads(base64.b64decode(sys.argv[1]));os.execvp(a[0],a)"
)
NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run on a host.

    `stdin` is sent first and whole. A secret goes there: `argv` and `env` are visible to every
    user of the host while the command runs, and are logged.

    An on-host program needs its `archive`, which `Connection.open` sends before `stdin`. `program`
    is its module if a fork of the multiplexer can run it, in place of `argv`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: NO_ENV)
    stdin: bytes = field(default=b"", repr=False)
    archive: bytes = field(default=b"", repr=False)
    program: str = ""

    @property
    def input(self) -> bytes:
        """The whole input of a process that was started with `argv`."""
        return self.archive + self.stdin

    def line(self) -> str:
        """Return the command as one line that a POSIX shell splits back into the same words."""
        argv = self.argv
        if self.env:
            argv = ("env", *(f"{name}={value}" for name, value in self.env.items()), *argv)
        return quote(argv)

    def login_line(self) -> str:
        """Return the command as one line that any login shell splits, such as tcsh or fish.

        Those read no line break in quotes, and see more in a word than a POSIX shell does. Words
        with such characters travel in base64, and Python starts the program.
        """
        line = self.line()
        if not UNPORTABLE.search(line):
            return line
        words = base64.b64encode(json.dumps(shlex.split(line)).encode()).decode()
        return quote([*ISOLATED_PYTHON, "-c", RUN_WORDS, words])


def quote(argv: Iterable[str]) -> str:
    """Return the words of `argv` as text that a POSIX shell splits back byte for byte."""
    return " ".join(shlex.quote(word) for word in argv)


def quote_folded(argv: Iterable[str]) -> str:
    """Return the words of `argv` as shell text with one option a line, for scripts.

    The only line breaks are those before words that begin with a dash.
    """
    text = ""
    for word in argv:
        text += (" \\\n    " if word.startswith("-") else " ") + shlex.quote(word)
    return text.lstrip()


def build_shell_command(name: str, *arguments: str) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.sh` on a host, with `arguments`."""
    text = _read_onhost_file(f"{name}.sh")
    return Command(argv=("sh", "-c", text, f"{PurePosixPath(name).name}.sh", *arguments))


def build_script_command(
    name: str, request: Mapping[str, Any] | None, *, python: Sequence[str] = ()
) -> Command:
    """Return the command that runs `sparkfleet/onhost/<name>.py` on a host.

    The program travels on stdin as a zip archive with the modules that it imports, so nothing is
    installed on the host. After it comes `request` as a line of JSON (None: the caller sends it),
    then what the caller adds.

    `python` is for a program that inspects another Python's packages, such as the engine's. By
    default the host's own runs isolated, so that no PYTHONPATH or site-packages shadow a module.
    """
    archive = build_archive(name)
    module = get_module_name(name)
    line = b"" if request is None else json.dumps(request, separators=(",", ":")).encode() + b"\n"
    start = json.dumps(START.format(size=len(archive), module=module))
    return Command(
        argv=(*(python or ISOLATED_PYTHON), "-c", f"exec({start})"),  # a line, for every shell
        stdin=line,
        archive=archive,
        program="" if python else module,
    )


def build_multiplexer_command() -> Command:
    """Return the command that runs `onhost/transport/multiplexer.py`, which reads frames."""
    return replace(build_script_command("transport/multiplexer", None), program="")


def get_module_name(name: str) -> str:
    """Return the module of a program: ``host/facts`` is ``sparkfleet.onhost.host.facts``."""
    return f"{ONHOST}.{name.replace('/', '.')}"


@cache
def build_archive(name: str) -> bytes:
    """Return the zip archive of a program; the same bytes each time."""
    sources = dict(_iterate_sources(get_module_name(name)))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, text in sorted(sources.items()):
            archive.writestr(zipfile.ZipInfo(path), text, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def _iterate_sources(program: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of the modules that a program needs, with the packages above them."""
    waiting = [program, ARCHIVE_MODULE]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        text = _read_onhost_file(f"{module.removeprefix(ONHOST + '.').replace('.', '/')}.py")
        waiting += IMPORT.findall(text)
        yield f"{module.replace('.', '/')}.py", text
        *packages, _ = module.split(".")
        for depth in range(1, len(packages) + 1):
            yield f"{'/'.join(packages[:depth])}/__init__.py", ""


def _read_onhost_file(path: str) -> str:
    return resources.files(ONHOST).joinpath(path).read_text(encoding="utf-8")
