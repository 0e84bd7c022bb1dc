"""Many programs of a host share one channel, and none notices."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.model import Host
from sparkfleet.onhost.shared.labels import FRAMES_MARK
from sparkfleet.remote import multiplexer
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.local import LocalConnection
from tests.onhost import pack_program


class CountedLink(LocalConnection):
    """Counts its channels."""

    def __init__(self) -> None:
        super().__init__(Host(name="here"))
        self.started: list[str] = []

    def _start(self, command: Command) -> Channel:
        self.started.append(command.argv[0])
        return super()._start(command)


@pytest.fixture
def link() -> Iterator[CountedLink]:
    with CountedLink() as opened:
        yield opened


ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('bye')"


def test_programs_run_side_by_side_over_one_channel(link: CountedLink) -> None:
    first, second = link.open(pack_program(ECHO)), link.open(pack_program(ECHO))
    said = [first.lines(), second.lines()]
    second.send(b"two\n")
    assert next(said[1]) == b"got two"
    first.send(b"one\n")
    assert next(said[0]) == b"got one"
    first.end_input()
    assert list(said[0]) == [b"bye"]
    assert first.wait() == 0
    second.end_input()
    assert list(said[1]) == [b"bye"]
    assert link.started == ["python3"]


def test_a_program_has_processes_of_its_own_and_a_fresh_main(link: CountedLink) -> None:
    text = (
        "import json, os, sys\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: 'int'\n"
        "files = os.listdir('/proc/self/fd')\n"
        "print(json.dumps([os.getpid(), os.getsid(0), sorted(globals())[-1], files]))"
    )
    answers = [json.loads(link.run(pack_program(text)).stdout) for _ in range(2)]
    pids = {answer[0] for answer in answers}
    assert len(pids) == 2
    for pid, session, last, files in answers:
        assert session == pid
        assert last == "sys"
        assert files == ["0", "1", "2", "3"]  # the last is that of the listing itself


def test_what_a_program_opens_last_stays_open(link: CountedLink) -> None:
    """Glibc aborts a program whose thread ends while the file of libgcc_s is closed under it."""
    text = (
        "import atexit, gc, os\n"
        "def check():\n"
        "    number = os.open(os.devnull, os.O_RDONLY)\n"
        "    gc.collect()\n"
        "    print(os.fstat(number).st_rdev, flush=True)\n"
        "atexit.register(check)\n"
    )
    done = link.run(pack_program(text))
    assert (done.text.strip(), done.returncode) == (str(Path(os.devnull).stat().st_rdev), 0)


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise BrokenPipeError", 1, "BrokenPipeError"),
        ("import sys; print('ü', file=sys.stderr)", 0, "ü"),
        ("import os; os.close(1); os.close(2); raise SystemExit(4)", 4, ""),
    ],
)
def test_a_program_ends_as_it_would_alone(
    link: CountedLink, text: str, status: int, said: str
) -> None:
    result = link.run(pack_program(text))
    assert result.returncode == status
    assert said in result.stderr


def test_a_program_that_does_not_read_its_input_blocks_no_other(link: CountedLink) -> None:
    deaf = link.open(pack_program("import time; time.sleep(30)"))
    deaf.send(b"x" * 3_000_000)
    assert link.run(pack_program("print('here')"), timeout=60).text == "here\n"
    deaf.close()


def test_much_input_arrives_whole(link: CountedLink) -> None:
    channel = link.open(pack_program("import sys; print(len(sys.stdin.buffer.read()))"))
    channel.feed([b"x" * 1_000_000] * 5)
    assert channel.finish(60).text == "5000000\n"


def test_a_dropped_program_sees_its_input_end(link: CountedLink, tmp_path: Path) -> None:
    note = tmp_path / "note"
    channel = link.open(
        pack_program(f"import sys; sys.stdin.read(); open({str(note)!r}, 'w').close()")
    )
    channel.close()
    assert within(60, note.exists)
    assert link.run(pack_program("print('still')")).text == "still\n"


def test_with_the_link_every_input_ends(tmp_path: Path) -> None:
    note = tmp_path / "note"
    link = CountedLink()
    link.open(pack_program(f"import sys; sys.stdin.read(); open({str(note)!r}, 'w').close()"))
    link.close()
    assert within(60, note.exists)


def test_a_multiplexer_that_was_killed_ends_its_streams_and_is_started_again(
    link: CountedLink,
) -> None:
    parent = int(link.run(pack_program("import os; print(os.getppid())")).text)
    waiting = link.open(pack_program("import sys; sys.stdin.read()"))
    os.kill(parent, signal.SIGKILL)
    assert waiting.finish(60).returncode != 0
    assert link.run(pack_program("print('again')")).text == "again\n"
    assert link.started == ["python3", "python3"]


IMPATIENT = (
    "from sparkfleet.onhost.transport import multiplexer\n"
    "multiplexer.SILENCE = 0.2\nmultiplexer.main()"
)


def test_a_host_gives_up_a_client_whose_heartbeats_stay_away() -> None:
    words = [sys.executable, "-c", IMPATIENT]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.read(len(FRAMES_MARK)) == FRAMES_MARK
        beat = multiplexer.HEADER.pack(0, multiplexer.HEARTBEAT, 8) + multiplexer.MOMENT.pack(7.0)
        server.stdin.write(beat)
        server.stdin.flush()
        assert server.stdout.read(len(beat)) == beat
        assert server.wait(60) == 0  # though its input is still open


def test_heartbeats_are_answered(link: CountedLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "BEAT", 0.01)
    assert link.run(pack_program("print('here')")).text == "here\n"
    assert link._multiplexer is not None
    first = link._multiplexer._answered
    assert within(60, lambda: link._multiplexer is not None and link._multiplexer._answered > first)


def test_a_host_that_gave_the_client_up_counts_as_lost_where_something_is_kept(
    link: CountedLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[bool] = []
    link.restore_with(lambda _: restored.append(True))
    waiting = link.open(pack_program("import sys; sys.stdin.read()"))
    assert not link.is_lost()
    monkeypatch.setattr(multiplexer, "STALE_AFTER", -1.0)
    assert not link.is_lost()  # nothing is kept
    link.keep(waiting)
    assert link.is_lost()
    link.reconnect()
    assert restored == [True]
    assert not link.is_lost()


def test_what_much_is_sent_to_has_a_channel_of_its_own(link: CountedLink) -> None:
    text = "import sys; print(len(sys.stdin.read()))"
    assert link.run(pack_program(text), payload=[b"x" * 10]).text == "10\n"
    link.run(Command(argv=("true",)))
    assert link.started == ["python3", "true"]
    assert link._multiplexer is None


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False


CHATTER = "while True: print('x' * 100, flush=True)"


def test_one_that_is_dropped_while_it_talks_disturbs_no_other(link: CountedLink) -> None:
    for _ in range(25):
        noisy = link.open(pack_program(CHATTER))
        noisy.receive(time.monotonic() + 60)
        noisy.close()
        asked = replace(pack_program(ECHO), stdin=b"hi\n")
        assert link.run(asked, timeout=60).text == "got hi\nbye\n"
    assert link.started == ["python3"]
