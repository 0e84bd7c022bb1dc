"""A run outlives its readers, its terminal and its disk, and says what was lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet.cli import command
from sparkfleet.cli.cluster.watching import unreachable
from sparkfleet.errors import UsageError
from sparkfleet.model import Cluster, Host
from sparkfleet.report import output_streams
from sparkfleet.report.events import Note
from sparkfleet.report.log import LogReporter, create_log_folder
from sparkfleet.report.output_files import write_output_file
from tests.variations import keep_some

CHECKOUT = Path(__file__).parents[3]
PAIR = str(CHECKOUT / "inventories" / "pair.yml")
FULL = Path("/dev/full")
SPEAKERS = [
    ["--list"],
    ["cluster.up", "--help"],
    ["recipes.list"],
    ["recipes.list", "--output", "json"],
    ["recipes.fit", "gpt-oss-120b"],
    ["inventory.list", "--inventory", PAIR],
    ["inventory.host", "spark1", "--inventory", PAIR],
]


@pytest.fixture(autouse=True)
def _nothing_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_streams, "_lost", {})


def _type(words: list[str], out: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sparkfleet", *words],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", keep_some(SPEAKERS, 3))
def test_a_reader_who_leaves_changes_nothing(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = _type(words, write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", keep_some(SPEAKERS, 3))
def test_output_that_cannot_be_written_is_reported_and_is_not_a_bug(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = _type(words, full.fileno())
    assert done.stderr == "standard output could not be written: No space left on device\n"
    assert done.returncode == 5


def test_closed_descriptors_are_not_given_to_files() -> None:
    words = f"{sys.executable} -m sparkfleet recipes.list <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", words], check=False).returncode == 0
    code = (
        "from sparkfleet.report import output_streams; import os; "
        "output_streams.protect_standard_streams(); "
        "os._exit(os.open('/dev/null', os.O_RDONLY))"
    )
    words = f'{sys.executable} -c "{code}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", words], check=False).returncode > output_streams.ERRORS


@pytest.mark.parametrize(
    "interrupt", ["raise KeyboardInterrupt", "exec('raise KeyboardInterrupt')"], ids=["", "in exec"]
)
def test_an_interrupt_while_modules_load_ends_with_130(interrupt: str, tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(
        "import sys, sparkfleet.__main__ as main\n"
        f"def interrupted(_): {interrupt}\n"
        "main._run_command_line = interrupted\n"
        "main.main()"
    )
    done = subprocess.run(
        [sys.executable, "-m", "command"],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_task_that_only_shows_learns_that_its_reader_left() -> None:
    code = (
        "import sys; from sparkfleet.report import output_streams; "
        "output_streams.protect_standard_streams()\n"
        "while output_streams.has_reader(): print('x', flush=True)\n"
        "sys.stderr.write('ended')"
    )
    words = f'{sys.executable} -c "{code}" | head -1'
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("x\n", "ended")


def test_an_interrupt_writes_nothing_twice() -> None:
    code = (
        "import signal, sys; from sparkfleet.report import output_streams; "
        "output_streams.protect_standard_streams()\n"
        "armed = False\n"
        "def ring(*_):\n"
        " global armed\n"
        " if armed: armed = False; raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, ring)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)\n"
        "for line in range(20000):\n"
        " try:\n"
        "  armed = line % 2 == 0\n"
        "  sys.stdout.write(f'{line}\\n'); sys.stdout.flush(); armed = False\n"
        " except KeyboardInterrupt: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) >= 10000  # half of them were not interrupted
    assert len(set(lines)) == len(lines)


def test_a_full_disk_ends_the_log_and_not_the_run() -> None:
    with LogReporter(FULL) as log:
        log.handle(Note(text="a line that finds no place"))
    assert output_streams._lost == {"/dev/full": "No space left on device"}
    assert output_streams.flush_streams() is False  # it was not requested: the exit code stays


def test_what_is_remembered_between_runs_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sparkfleet").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = Cluster(name="c", hosts=(Host(name="a"),))
    unreachable.update_unreachable(cluster, lost=["a"], answered=["a"], command="")
    assert "Not a directory" in "".join(output_streams._lost.values())
    assert unreachable.format_unreachable(cluster) == {}


def test_what_is_kept_is_this_users_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user who could write there would approve recipes in this one's name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = os.umask(0)
    try:
        folder = create_log_folder("1")
    finally:
        os.umask(before)
    below = (folder, folder.parent, folder.parent.parent)
    assert [path.stat().st_mode & 0o777 for path in below] == [0o700] * 3
    folder.parent.parent.chmod(0o777)
    create_log_folder("2")
    assert folder.parent.parent.stat().st_mode & 0o777 == 0o755


def test_a_file_that_another_user_put_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / ".page.html.new").symlink_to(victim)
    write_output_file(tmp_path / "page.html", "ours")
    assert (victim.read_text(), (tmp_path / "page.html").read_text()) == ("theirs", "ours")


def test_a_log_that_cannot_be_kept_is_reported_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sparkfleet").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"cannot be written to .*: Not a directory") as caught:
        create_log_folder("1")
    assert "XDG_STATE_HOME" in str(caught.value)


def test_a_bug_is_reported_where_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def broken() -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    assert command.run_task(broken) == 1
    assert capfd.readouterr().err == (
        "a bug in sparkfleet: ZeroDivisionError: boom\n"
        "  its traceback could not be written: No space left on device\n"
    )
