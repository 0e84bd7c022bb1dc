"""Text of others is shown to a person and never obeyed by a terminal; one gate for all screens."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pty
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.live import Live

from sparkfleet.cli import program
from sparkfleet.cli.cluster import logs
from sparkfleet.cli.views import screen, tables, verdicts
from sparkfleet.errors import Problem, UsageError
from sparkfleet.launch.host import processes
from sparkfleet.model import Change, Outcome, Severity, Status, Verdict
from sparkfleet.remote.pool import Answers
from sparkfleet.report import events
from sparkfleet.report import json as json_report
from sparkfleet.report.junit import JunitReporter
from sparkfleet.report.log import LogReporter
from sparkfleet.report.screens import PlainScreen
from sparkfleet.report.terminal import VisibleConsole, fold_words
from sparkfleet.report.text import TextReporter
from sparkfleet.report.visible import clean_log_text, escape_control, escape_line

PACKAGE = Path(__file__).parents[3] / "sparkfleet"
HOSTILE = (
    "\x1b]52;c;UFdORUQ=\x1b\\",  # writes the clipboard
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b2J",
    "\x9d52;c;UFdORUQ=\x9c",
    "bell\x07 back\x08 down\x0b page\x0c over\rwritten \x0e\x0f\x7f\x85",
    "[bold red]no markup[/] [link=http://x]y[/link] :smile:",
    "\udc9b",
)
ALL = " ".join(HOSTILE)
SHOWN = (
    *("\\x1b]52;c;UFdORUQ=\\x1b\\", "\\x1b]0;title\\x07", "\\x1b[2J", "\\x9b2J", "\\x7f\\x85"),
    *("bell\\x07 back\\x08 down\\x0b page\\x0c over\\x0dwritten \\x0e\\x0f", "\\udc9b"),
    "[bold red]no markup[/] [link=http://x]y[/link] :smile:",
)
OBEYED = {chr(code) for code in (*range(32), *range(0x7F, 0xA0))} - {"\n", "\t"}


def _plain(text: str) -> str:
    """Return what a terminal got, less Rich's own: colours, the cursor's moves, CR LF of a pty."""
    own = re.compile("\r?\x1b\\[(\\?25[lh]|[0-9;]*[mK]|1A|1G)")
    return own.sub("", text).replace("\r\n", "\n")


def _check(text: str) -> None:
    assert not OBEYED & set(text), sorted(OBEYED & set(text))
    flat = text.replace("\n", "")
    for part in SHOWN:
        assert part in flat


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, work: Any) -> str:
    """Return what `work` sends to a terminal, that is standard output."""
    ours, theirs = pty.openpty()
    got: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, got))
    reader.start()
    with monkeypatch.context() as patch, os.fdopen(theirs, "w", encoding="utf-8") as stream:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "1000")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        work()
    reader.join(timeout=60)
    assert not reader.is_alive()
    os.close(ours)
    return b"".join(got).decode()


def _read(terminal: int, got: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # its other end is closed
        while text := os.read(terminal, 65536):
            got.append(text)


def test_long_lines_are_folded_between_words_and_can_be_copied() -> None:
    line = "fix: sudo ip neigh flush all"
    folded = fold_words(line, 12)
    rows = [folded[at : at + 12] for at in range(0, len(folded), 12)]
    assert rows == ["fix: sudo ip", "  neigh     ", "  flush all"]
    assert folded.split() == line.split()
    assert fold_words("+ added words of a file", 12) == "+ added words of a file"
    assert fold_words("a/path/that/is/long then", 12) == "a/path/that/is/long       then"
    assert fold_words("short\nlines", 12) == "short\nlines"


def test_one_function_shows_what_a_terminal_obeys() -> None:
    for code in (*range(32), *range(0x7F, 0xA0)):
        kept = chr(code) in "\t\n"
        assert escape_control(f"a{chr(code)}b") == (
            f"a{chr(code)}b" if kept else f"a\\x{code:02x}b"
        )
        assert escape_line(chr(code)) == f"\\x{code:02x}"
    assert escape_control("\ud800\udfff \N{SNOWMAN} \xa0") == "\\ud800\\udfff \N{SNOWMAN} \xa0"
    assert escape_control("a\r\nb\r") == "a\nb\\x0d"
    assert escape_control(escape_control(ALL)) == escape_control(ALL)
    assert escape_line("\u2028\u2029") == "\\u2028\\u2029"
    assert escape_control("ok \u202egnp.exe\u2066") == "ok \\u202egnp.exe\\u2066"
    assert escape_line("\u200f") == "\\u200f"


def test_a_log_has_no_colours_and_a_line_for_each_state_of_a_bar() -> None:
    text = "\x1b[0;36m(pid=1)\x1b[0m 10%\r 20%\r\n\x1b[2Jx\x1b[38:5:1m"
    assert clean_log_text(text) == "(pid=1) 10%\n 20%\n\\x1b[2Jx"


def _answers() -> Any:
    return Answers(values={"spark-1": {"serve": ALL}}, errors={"spark-2": UsageError(ALL)})


def test_logs_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        logs._print_logs(_answers())
        lines = logs._split_lines(Answers(values={"spark-1": {"serve": ALL}}, errors={}))
        logs._print_new_lines({}, lines)

    text = _on_a_terminal(monkeypatch, work)
    assert "\x1b[1m==> spark-1 serve <==" in text  # our own styles go on
    _check(_plain(text))
    assert _plain(text).count("\\x1b]52;c;UFdORUQ=\\x1b\\") == 3


def _events() -> Iterator[events.Event]:
    verdict = Verdict(
        check="a", severity=Severity.ERROR, host=ALL, subject=ALL, expected=ALL, seen=ALL, fix=ALL
    )
    change = Change(summary=ALL, path=ALL, before=ALL, after=f"+{ALL}")
    outcome = Outcome(
        host=ALL,
        status=Status.FAILED,
        message=ALL,
        hint=ALL,
        verdicts=(verdict,),
        changes=(change,),
        data={"stdout_lines": [ALL], "stderr_lines": [ALL]},
    )
    yield events.RunStarted(task="t", sources={"i": ALL})
    yield events.PlayStarted(name=ALL, hosts=(ALL,))
    yield events.TaskStarted(name=ALL, action="command", hosts=(ALL,))
    yield events.Progress(host=ALL, text=ALL, done=1, total=2)
    yield events.HostEnded(task=ALL, outcome=outcome)
    yield events.Note(text=ALL)
    yield events.RunEnded(
        recap={ALL: {Status.OK: 1}}, exit_code=0, seconds=1, answer=(ALL,), phases=((ALL, 1.0),)
    )


def test_a_run_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        reporter = TextReporter(screen.create_screen(sys.stdout), diff=True, verbose=True)
        for event in _events():
            reporter.handle(event)

    text = _on_a_terminal(monkeypatch, work)
    assert "\x1b[1;31mfatal: [" in text
    _check(_plain(text))


def test_tables_and_what_is_live_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        console = tables.create_console()
        table = tables.create_table("host", ALL)
        table.add_row(ALL, tables.create_cell(ALL, "red"))
        console.print(table)
        console.print(ALL, style="bold")
        verdict = Verdict(
            check=ALL, severity=Severity.ERROR, host=ALL, subject=ALL, expected=ALL, seen=ALL
        )
        verdicts.print_verdicts(console, [verdict], verbose=True)
        with Live(console=console, auto_refresh=False) as live:
            live.update(tables.create_cell(ALL), refresh=True)

    text = _on_a_terminal(monkeypatch, work)
    assert "\x1b[31m" in text
    _check(_plain(text))


def test_rich_itself_lets_nothing_by(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text  # noqa: PLC0415 - what modules of sparkfleet do not use

    text = _on_a_terminal(monkeypatch, lambda: VisibleConsole().print(Text(ALL)))
    assert not OBEYED & set(_plain(text))


def test_errors_and_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with pytest.raises(SystemExit):
            program.create_program().run(["sparkfleet", "cluster.status", f"--nothing={ALL}"])
        with pytest.raises(SystemExit):
            program.create_program().run(["sparkfleet", "cluster.status", "--output", ALL])
        with pytest.raises(SystemExit):
            program.create_program().run(["sparkfleet", ALL])

    text = _plain(_on_a_terminal(monkeypatch, work))
    assert not OBEYED & set(text)
    assert "\\x1b[2J" in text


def test_plain_lines_and_files(tmp_path: Path) -> None:
    stream = io.StringIO()
    plain = PlainScreen(stream)
    plain.line(ALL)
    plain.progress(events.Progress(host="a", text=f"{ALL}\nnext"))
    _check(stream.getvalue())
    assert len(stream.getvalue().splitlines()) == 2
    with LogReporter(tmp_path / "run.log") as log:
        for event in _events():
            log.handle(event)
        log.handle(events.RunStopped(problems=(Problem(message=ALL, hint=ALL),), exit_code=5))
    _check((tmp_path / "run.log").read_bytes().decode())


def test_junit_is_xml_and_text(tmp_path: Path) -> None:
    for happened in (
        tuple(_events()),
        (
            events.PlayStarted(name=ALL, hosts=()),
            events.RunStopped(problems=(Problem(message=ALL),), exit_code=5),
        ),
    ):
        reporter = JunitReporter(tmp_path / "j.xml")
        for event in happened:
            reporter.handle(event)
        text = (tmp_path / "j.xml").read_bytes().decode()
        assert not OBEYED & set(text)
        root = ET.fromstring(text)
        (result,) = [*root.iter("failure"), *root.iter("error")]
        _check(str(result.text))


def test_saved_logs_hold_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Link:
        class host:  # noqa: N801 - as a link has it
            name = "spark-1"

    monkeypatch.setattr(processes, "read_logs", lambda *_: {"serve": ALL})
    link: Any = Link()
    (path,) = processes.save_logs(link, {}, tmp_path)
    text = path.read_bytes().decode()
    assert not OBEYED & set(text)
    assert "\\x1b]52;c;UFdORUQ=\\x1b\\" in text


def test_json_stays_json() -> None:
    stream = io.StringIO()
    json_report.write_document({"a": ALL, ALL: [ALL]}, stream)
    assert not OBEYED & set(stream.getvalue())
    assert json.loads(stream.getvalue()) == {"a": ALL, ALL: [ALL]}


# Who writes to a person without a screen, and why.
WRITERS = {
    "__main__.py": "words of ours alone, before anything is imported",
    "cli/prompt.py": "a question, escaped, that waits for yes or no",
    "doctor/catalogue.py": "a document of shipped texts, for the repository",
    "actions/builtin/pause.py": "a question, escaped, that waits for Enter",
    "lab/host/boot.py": "a program of the lab: one line of JSON to its parent",
    "lab/host/init.py": "a program of the lab: its traceback into a log",
    "lab/engine/train.py": "a program of the lab: what a trainer prints, into a log",
    "report/output_files.py": "what the user sends to a file, which may be /dev/stdout",
    "report/output_streams.py": "escaped; the last words on the streams themselves",
    "report/screens.py": "the gate of plain lines",
}
CONSOLES = {"cli/views/tables.py", "cli/views/verdicts.py", "report/terminal.py"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("onhost/"):  # programs of hosts: a frame or a log takes their words
            yield name, ast.parse(path.read_text())


def _writes(node: ast.AST) -> bool:
    """Whether `node` prints, asks, or writes to a standard stream."""
    if isinstance(node, ast.keyword):
        return node.arg == "file" and _is_stream(node.value)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in ("print", "input")
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("print_exc", "print_exception"):
        return True
    return node.func.attr in ("write", "writelines") and (
        _is_stream(node.func.value)
        or (isinstance(node.func.value, ast.Name) and node.func.value.id == "stream")
    )


def _is_stream(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in STREAMS


def test_nothing_is_printed_but_through_the_gates() -> None:
    found = {name for name, tree in _modules() if any(map(_writes, ast.walk(tree)))}
    assert found == set(WRITERS)


def test_rich_is_entered_through_its_gates() -> None:
    doors = {"rich.console", "rich.text", "rich.markup", "rich"}
    found = {
        name
        for name, tree in _modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module in doors)
        or (isinstance(node, ast.Import) and any(one.name.startswith("rich") for one in node.names))
    }
    made = {
        name
        for name, tree in _modules()
        for node in ast.walk(tree)
        if name in found
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Console", "Text")
    }
    types = {
        "cli/recipes/fitting/view.py",
        "cli/views/cluster_status.py",
        "cli/gateway/status.py",
    }  # for annotations alone
    assert found - types <= CONSOLES
    assert made == {"cli/views/tables.py"}
