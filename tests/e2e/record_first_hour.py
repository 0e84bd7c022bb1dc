"""Records the first hour on a bare lab: `sudo python -m tests.e2e.record_first_hour`.

Writes docs/first-hour.cast, a terminal cast (asciicast v2, for `asciinema play`), and from it the
session in README.md. docs/lab.md says what the lab simulates.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from tests.e2e.newcomer import CHECKOUT, PROMPT, WIDTH, Terminal, make_project, write_lab_variables

CAST = CHECKOUT / "docs/first-hour.cast"
README = CHECKOUT / "README.md"
PATIENCE = 3600.0  # seconds; also on a busy machine
SHOWN_PROMPT = "$ "
# Lines of the session that README shows; the others are left out, with `...` in their place.
SHOWN = re.compile(
    r"\$ sparkfleet|Which Sparks|first Spark, the head|another Spark|  is it the key of .*\.1\?"
    r"|  added to .*\.ssh|nvidia@10\.78\.0\.1's password|spark1: NVIDIA|  rail enp1s0f1np1"
    r"|wrote (inventories|/.*api-key)| host    port| spark[12]  [01] |tried; each host"
    r"|spark[12]: kept|TASK \[Smoke prompt|.*=> 12\*17 -> |rank [01] on|endpoint http"
)
LEFT_OUT = "..."


def record() -> None:
    """Type the three commands on a bare lab, and write the cast."""
    install.install_engine(print)
    model.ensure_model(print)
    fleet.remove_fleet()
    lab = fleet.start_fleet(2, bare=True, password=True)
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder), patience=PATIENCE)
        try:
            make_project(lab, terminal, mistakes=())
            terminal.type_line("sparkfleet links.apply", until="[y/N] ")
            terminal.type_line("y")
            write_lab_variables(lab, Path(folder) / "inventories/group_vars/sparks.yml")
            shown = terminal.type_line("sparkfleet cluster.up --tp 2")
            assert "12*17 -> 204" in shown, shown
        finally:
            terminal.close()
            fleet.remove_fleet()
        names = {
            folder: "/home/me/sparks",
            str(Path.home()): "/home/me",
            f"{getpass.getuser()}@{socket.gethostname()}": "me@laptop",
            PROMPT: SHOWN_PROMPT,
        }
        CAST.write_text(format_cast(terminal.events, names))
    README.write_text(replace_session(README.read_text(), format_session(read_cast(CAST))))


def format_cast(events: Sequence[tuple[float, str]], names: Mapping[str, str]) -> str:
    """Return a cast, a line of JSON for each event; `names` replaces what is of this machine.

    An event ends with a line or a question, so that no name is cut in two.
    """
    head = {
        "version": 2,
        "width": WIDTH,
        "height": 30,
        "idle_time_limit": 2,  # seconds that a player waits at most
        "title": "The first hour with two Sparks",
    }
    lines = [json.dumps(head)]
    for seconds, text in _join_lines(events):
        for name, shown in names.items():
            text = text.replace(name, shown)  # noqa: PLW2901 - each name in turn
        lines.append(json.dumps([round(seconds, 3), "o", text], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _join_lines(events: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    rest = ""
    for seconds, text in events:
        rest += text
        whole, newline, after = rest.rpartition("\n")
        if newline:
            yield seconds, whole + newline
        rest = after
        if rest.endswith((" ", ": ")):  # a question
            yield seconds, rest
            rest = ""
    if rest:
        yield events[-1][0], rest


def read_cast(path: Path) -> str:
    """Return all that a cast shows."""
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return "".join(text for _, _, text in rows).replace("\r\n", "\n")


def format_session(text: str) -> str:
    """Return the lines of a session that README shows."""
    lines: list[str] = []
    for line in text.splitlines():
        shown = line.rstrip() if SHOWN.match(line) else LEFT_OUT
        if shown != LEFT_OUT or not lines or lines[-1] != LEFT_OUT:
            lines.append(shown)
    return "\n".join(lines).strip(f"\n{LEFT_OUT}")


def replace_session(readme: str, session: str) -> str:
    """Return README's text with another session."""
    start = readme.index("```\n$ sparkfleet init\n") + len("```\n")
    end = readme.index("```", start)
    return f"{readme[:start]}{session}\n{LEFT_OUT}\n{readme[end:]}"


if __name__ == "__main__":
    record()
