"""The error of `lab.up` for a host whose sshd does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.lab.engine import requirements
from sparkfleet.lab.engine.requirements import explain_silent_sshd

LOADER = (
    "/usr/sbin/sshd: error while loading shared libraries: libwrap.so.0: cannot open shared object"
    " file: No such file or directory"
)


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the host's console."""
    monkeypatch.setattr(requirements, "locate_layers", lambda host: tmp_path / host)
    (tmp_path / "spark-01").mkdir()
    return tmp_path / "spark-01/console.log"


def test_an_sshd_without_a_library_is_quoted_from_the_console(console: Path) -> None:
    console.write_text(f"booted\n{LOADER}\n")
    error = explain_silent_sshd("spark-01", "")
    assert error.message == f"spark-01: sshd does not answer: booted\n{LOADER}"
    assert error.hint == "try it on this machine: sudo /usr/sbin/sshd -t"


def test_the_log_of_sshd_comes_before_the_console(console: Path) -> None:
    console.write_text(LOADER)
    lines = "".join(f"line {number}\n" for number in range(9))
    message = explain_silent_sshd("spark-01", lines).message
    assert message == "spark-01: sshd does not answer: line 4\nline 5\nline 6\nline 7\nline 8"


def test_an_sshd_that_printed_nothing_is_said_to_have(console: Path) -> None:
    message = explain_silent_sshd("spark-01", "").message
    assert message == "spark-01: sshd does not answer, and printed nothing"
