"""The command line as a user types it, and a look at what it made of the lab's hosts."""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from sparkfleet.lab import fleet
from tests.forking import ENVIRONMENT, ForkedProcess, ForkServer
from tests.source import PACKAGE

LONGEST = 900.0  # seconds: a start of real vLLM on a machine that is several times slower and busy
PATIENCE = 60.0  # seconds until a state that is awaited counts as one that never comes
# An inventory whose host fails at once: no address of one host, so that nothing is tried again.
UNREACHABLE = "sparks: {hosts: {one: {ansible_host: 127.255.255.255}}}\n"
# What a fresh process runs that stops at marks; the first words are this folder's and the marks.
STOPPING = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
from tests.stopping import stop_at
stop_at(json.loads(sys.argv.pop(1)))
from sparkfleet.__main__ import main
main()
"""

Child = subprocess.Popen[str] | ForkedProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Result of a command line."""

    code: int
    output: str

    def recap(self, host: str) -> dict[str, int]:
        """Return the counts of `host` in the recap."""
        line = re.search(rf"^{host} +: (.*)$", self.output, re.MULTILINE)
        assert line is not None, self.output
        pairs = (word.split("=") for word in line[1].split())
        return {name: int(count) for name, count in pairs}


Type = Callable[..., Done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event for a command line that waits after a line with `mark`."""

    mark: str
    deed: Callable[[Child], object]


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "sparkfleet", *words]


def type_with(inventory: Path) -> Type:
    """Return the function that types a command with an inventory, and waits for its end."""

    def call(*words: str) -> Done:
        done = subprocess.run(
            command_line(*words, "--inventory", str(inventory)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        return Done(code=done.returncode, output=done.stdout)

    return call


def run_command(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: str = "",
    door: str = "sparkfleet",
) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end, in a fork of a process that has imported it.

    It is a process of its own, as a user's, but for the 0.4 s of imports. Where its environment
    has other settings for libraries, which read them when they are imported, a fresh one runs.
    With the door `invoke`, invoke reads the words, which have to name the folder of tasks.py.
    """
    env = dict(os.environ if env is None else env)
    if _library_settings(ENVIRONMENT) != _library_settings(env):
        assert door == "sparkfleet", "libraries read them at their import"
        return subprocess.run(
            command_line(*words),
            cwd=cwd,
            env=env,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
    ):
        stdin.write(given)
        stdin.seek(0)
        code = _fork_command(words, stdin, stdout, stderr, door=door, cwd=cwd, env=env).wait()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, code, stdout.read(), stderr.read())


def start_command(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    terminal: int | None = None,
    session: bool = False,
    marks: Sequence[str] = (),
) -> ForkedProcess:
    """Start a command line in a fork; its output and errors come together in `stdout`.

    With a descriptor of a `terminal`, it is the standard input. A command line in a `session` of
    its own has that terminal, or none. It stops after a line with each of `marks`.
    """
    environment = dict(os.environ if env is None else env)
    same = _library_settings(ENVIRONMENT) == _library_settings(environment)
    assert same, "libraries read these settings when they are imported"
    read, write = os.pipe()
    with Path(os.devnull).open() as null, os.fdopen(write, "w") as output:
        stdin = null if terminal is None else terminal
        child = _fork_command(
            words, stdin, output, output, cwd=cwd, env=environment, session=session, marks=marks
        )
    child.stdout = os.fdopen(read)
    return child


@cache
def _start_server() -> ForkServer:
    server = ForkServer.launch("-m", "tests.fork_server")
    atexit.register(server.close)
    return server


def run_as_typed(*words: str) -> Done:
    """Run a command line to its end; its output and errors come together, as on a terminal.

    It is a fork, as in `run_command`, unless libraries have other settings.
    """
    if _library_settings(ENVIRONMENT) != _library_settings(os.environ):
        done = subprocess.run(
            command_line(*words), stdout=-1, stderr=subprocess.STDOUT, text=True, check=False
        )
        return Done(code=done.returncode, output=done.stdout)
    with start_command(*words) as child:
        code, output = child.read_rest()
    return Done(code=code, output=output)


def _fork_command(
    words: Sequence[str],
    *files: IO[str] | int,
    door: str = "sparkfleet",
    cwd: Path | None,
    env: Mapping[str, str],
    session: bool = False,
    marks: Sequence[str] = (),
) -> ForkedProcess:
    request = {
        "program": str(PACKAGE / "__main__.py") if door == "sparkfleet" else door,
        "door": door,
        "words": words,
        "cwd": str(cwd or Path.cwd()),
        "env": env,
        "session": session,
        "marks": marks,
    }
    descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
    return _start_server().start(request, descriptors)


def _library_settings(env: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in env.items() if name == "HOME" or name.startswith("HF_")}


@contextmanager
def started(*words: str, marks: Sequence[str] = ()) -> Iterator[Child]:
    """Start a command line, which stops after each of `marks`, for a test that reads along.

    It is a fork, as in `run_command`, unless libraries have other settings.
    """
    if _library_settings(ENVIRONMENT) == _library_settings(os.environ):
        with start_command(*words, marks=marks) as fork:
            yield fork
        return
    line = [sys.executable, "-c", STOPPING, str(PACKAGE.parent), json.dumps(marks), *words]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        yield child


def wait_until_stopped(child: Child) -> None:
    """Return once a command line has stopped itself at a mark, or has ended."""
    assert becomes(lambda: _read_process_state(child.pid) in {"T", "Z", ""})


def _read_process_state(pid: int) -> str:
    """Return the letter of a process's state, "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Return whether a process of this machine has ended, also if its parent has not noticed."""
    return _read_process_state(pid) in {"Z", ""}


def type_command(*words: str, events: Sequence[Event] = ()) -> Done:
    """Run a command line to its end; each of `events` happens while it waits at the event's mark.

    It waits, so that nothing depends on how fast the test is: what happens comes after the line
    that has the mark, and before anything that follows the line.
    """
    if not events:
        return run_as_typed(*words)
    lines: list[str] = []
    coming = list(events)
    with started(*words, marks=[event.mark for event in events]) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if coming and coming[0].mark in line:
                wait_until_stopped(child)
                coming.pop(0).deed(child)
                child.send_signal(signal.SIGCONT)
        return Done(code=child.wait(PATIENCE), output="".join(lines))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Return whether `holds` becomes true within `seconds`; asks once at least."""
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


def becomes(holds: Callable[[], bool]) -> bool:
    """Return whether `holds` becomes true, however slow this machine is."""
    return within(PATIENCE, holds)


def chat(address: str, question: str, *, model: str = "tiny-spark", key: str = "") -> str:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 16,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://{address}:8000/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


def processes(host: str) -> dict[int, str]:
    """Return the processes of the engine on a lab host, by the PID that they have there."""
    script = (
        "for p in /proc/[0-9]*; do "
        "tr '\\0' ' ' <$p/cmdline 2>/dev/null | sed \"s|^|${p#/proc/} |\"; echo; done"
    )
    done = fleet.run_on(host, ["sh", "-c", script])
    rows = (line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    marks = ("vllm", "ray", "VLLM")
    return {
        int(pid): command
        for pid, command in rows
        if any(mark in command for mark in marks) and "sh -c" not in command
    }


def environment(host: str, pid: int) -> dict[str, str]:
    """Return the environment of a process on a lab host."""
    text = fleet.run_on(host, ["cat", f"/proc/{pid}/environ"]).stdout
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
