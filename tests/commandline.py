"""The command line as a user types it, and a look at what it made of the lab's hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkfleet.lab import fleet

LONGEST = 420  # s; a start on two busy cores takes 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command line ended."""

    code: int
    output: str

    def recap(self, host: str) -> dict[str, int]:
        """Return the counts of `host` in the recap."""
        line = re.search(rf"^{host} +: (.*)$", self.output, re.MULTILINE)
        assert line is not None, self.output
        pairs = (word.split("=") for word in line[1].split())
        return {name: int(count) for name, count in pairs}


Type = Callable[..., Done]


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "sparkfleet", *words]


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command line, for a test that reads along; its output and exit are the test's."""
    with subprocess.Popen(
        command_line(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        yield child


def follow(child: subprocess.Popen[str], mark: str, deed: Callable[[], object]) -> Done:
    """Read a command line's output to its end; do `deed` when the first line holds `mark`."""
    lines: list[str] = []
    assert child.stdout is not None
    for line in child.stdout:
        if mark in line and not any(mark in earlier for earlier in lines):
            deed()
        lines.append(line)
    return Done(code=child.wait(60), output="".join(lines))


def chat(address: str, question: str, *, model: str = "tiny-spark") -> str:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 16,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://{address}:8000/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
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
