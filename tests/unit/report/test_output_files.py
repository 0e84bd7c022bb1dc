"""Files that the user names for output: another user who can write to the folder gains nothing."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.cli.cluster.export import export_monitoring
from sparkfleet.cli.cluster.options import MonitoringOptions
from sparkfleet.cli.doctor.bundle import write_bundle
from sparkfleet.cli.options import Options
from sparkfleet.errors import UsageError
from sparkfleet.report import events, output_streams
from sparkfleet.report.junit import JunitReporter
from sparkfleet.report.output_files import (
    check_output_file,
    keep_output_file,
    write_new_file,
    write_output_file,
)
from sparkfleet.report.trace import TraceReporter

END = events.RunEnded(recap={}, exit_code=0, seconds=9.0)
Writer = Callable[[Path], object]


def _end_run(reporter: TraceReporter | JunitReporter) -> None:
    reporter.handle(END)


def _export_dashboard(path: Path) -> None:
    inventory = path.parent / "inventory.yml"
    inventory.write_text("sparks: {hosts: {spark-01: {ansible_connection: local}}}\n")
    export_monitoring(
        MonitoringOptions(
            task="cluster.export", inventory=(str(inventory),), to="grafana", out=path
        )
    )


WRITERS: dict[str, Writer] = {
    "trace": lambda path: _end_run(TraceReporter(path)),
    "junit": lambda path: _end_run(JunitReporter(path)),
    "text": lambda path: write_output_file(path, "ours"),
    "export": _export_dashboard,
}


@pytest.fixture(params=list(WRITERS.values()), ids=list(WRITERS))
def writer(request: pytest.FixtureRequest) -> Writer:
    found: Writer = request.param
    return found


def test_a_link_in_the_place_of_an_output_is_replaced_and_not_followed(
    writer: Writer, tmp_path: Path
) -> None:
    victim, missing = tmp_path / "victim", tmp_path / "missing"
    victim.write_text("precious")
    for target in (victim, missing):
        path = tmp_path / f"of-{target.name}"
        path.symlink_to(target)
        writer(path)
        assert not path.is_symlink()
        assert path.read_text()
    assert victim.read_text() == "precious"
    assert not missing.exists()


def test_a_file_that_others_hold_open_does_not_get_the_output(
    writer: Writer, tmp_path: Path
) -> None:
    path = tmp_path / "output"
    path.write_text("theirs")
    with path.open() as theirs:
        writer(path)
        assert theirs.read() == "theirs"
    assert path.read_text() != "theirs"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_an_output_that_is_not_a_file_is_refused_before_anything_is_done(
    writer: Writer, make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "output"
    make(path)
    with pytest.raises(UsageError, match=r"a named pipe, not a file|is a folder"):
        writer(path)


def test_what_cannot_be_replaced_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    path = tmp_path / "output"
    path.write_text("theirs")
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 4242)
    with pytest.raises(UsageError, match=r"--trace .*: it belongs to another user"):
        check_output_file(path, "--trace")


def test_a_new_file_has_the_mode_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.touch(mode=0o600)
    path.chmod(0o600)
    write_output_file(path, "ours")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_a_stream_of_the_shell_is_written_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    path = Path(f"/dev/fd/{writing}")
    check_output_file(path)
    write_output_file(path, "ours")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ours"
    write_output_file(Path(os.devnull), "ours")
    assert Path(os.devnull).is_char_device()


def test_an_output_that_fails_at_the_end_of_a_run_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_streams, "_lost", {})
    monkeypatch.setattr(output_streams, "_required", set())
    path = tmp_path / "gone" / "output"
    keep_output_file(path, "ours")
    assert output_streams._lost == {str(path): "No such file or directory"}
    assert output_streams._required == {str(path)}


def test_a_new_file_is_not_made_through_a_link(tmp_path: Path) -> None:
    path, missing = tmp_path / "recipe.yml", tmp_path / "missing"
    path.symlink_to(missing)
    with pytest.raises(FileExistsError):
        write_new_file(path, "ours")
    with pytest.raises(UsageError, match="already exists"):
        write_bundle(path, None, Options(task="doctor"))
    assert not missing.exists()


def test_a_trace_that_is_written_again_is_whole(tmp_path: Path) -> None:
    for _ in range(2):
        _end_run(TraceReporter(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
