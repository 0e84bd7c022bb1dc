"""`copy`, `template` and `file`: what is at a path, and what undo puts back there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import PlaybookError, TemplateError
from sparkfleet.model import Outcome, Status
from sparkfleet.playbook.engine import RunResult
from tests.scenes import inventory, play

ONE = inventory(("spark-01",))
CHECK = RunOptions(check=True)
FAIL = "- name: bad\n  command: 'false'\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def _run(folder: Path, text: str, **settings: Any) -> tuple[RunResult, Outcome]:
    ended, record = play(folder, text, hosts=ONE, **settings)
    return ended, record.outcomes("it")["spark-01"]


def _mode(path: Path) -> str:
    return format(path.stat().st_mode & 0o7777, "04o")


def _copy(more: str) -> str:
    return f"- name: it\n  copy: {{content: new, dest: ~/f{more}}}\n"


def test_a_text_is_put_in_place_once(tmp_path: Path, home: Path) -> None:
    assert _run(tmp_path, _copy(", mode: '0600'"))[1].status is Status.CHANGED
    assert (home / "f").read_text() == "new"
    assert _mode(home / "f") == "0600"
    assert _run(tmp_path, _copy(", mode: '0600'"))[1].status is Status.OK
    assert list(home.iterdir()) == [home / "f"]


def test_check_shows_the_difference_and_writes_nothing(tmp_path: Path, home: Path) -> None:
    (home / "f").write_text("old")
    _, outcome = _run(tmp_path, _copy(""), options=CHECK)
    (change,) = outcome.changes
    assert (change.before, change.after, change.path) == ("old", "new", str(home / "f"))
    assert (home / "f").read_text() == "old"


def test_a_file_keeps_its_permissions_where_none_are_given(tmp_path: Path, home: Path) -> None:
    (home / "f").write_text("old")
    (home / "f").chmod(0o640)
    _run(tmp_path, _copy(""))
    assert _mode(home / "f") == "0640"


def test_only_the_permissions_may_differ(tmp_path: Path, home: Path) -> None:
    (home / "f").write_text("new")
    (home / "f").chmod(0o644)
    _, outcome = _run(tmp_path, _copy(", mode: '600'"))
    assert outcome.changes[0].summary.endswith("0644 -> 600")
    assert _mode(home / "f") == "0600"


def test_bytes_of_a_file_arrive_as_they_are(tmp_path: Path, home: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "blob").write_bytes(content)
    (home / "d").mkdir()
    _, outcome = _run(tmp_path, "- name: it\n  copy: {src: blob, dest: ~/d}\n")
    assert (home / "d" / "blob").read_bytes() == content
    assert outcome.data["dest"] == str(home / "d" / "blob")


def test_a_file_is_put_in_place_only_if_its_check_accepts_it(tmp_path: Path, home: Path) -> None:
    (home / "f").write_text("old")
    _, outcome = _run(tmp_path, _copy(", validate: grep -q old %s"))
    assert outcome.status is Status.FAILED
    assert outcome.message == f"{home}/f: validation failed, nothing was changed: exit status 1"
    assert (home / "f").read_text() == "old"
    _, outcome = _run(tmp_path, _copy(", validate: 'sh -c \"echo $0 is bad >&2; exit 3\" %s'"))
    assert outcome.message.endswith("nothing was changed: it is bad")
    assert _run(tmp_path, _copy(", validate: grep -q new %s"))[1].status is Status.CHANGED
    assert (home / "f").read_text() == "new"
    assert list(home.iterdir()) == [home / "f"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("visudo -c", "validate must contain %s"), ("a 'b %s", "cannot be split into words")],
)
def test_a_check_that_cannot_be_run_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(PlaybookError, match=expected):
        _run(tmp_path, _copy(f', validate: "{text}"'))


def test_a_link_is_written_through(tmp_path: Path, home: Path) -> None:
    (home / "real").write_text("old")
    (home / "f").symlink_to(home / "real")
    _run(tmp_path, _copy(""))
    assert (home / "f").is_symlink()
    assert (home / "real").read_text() == "new"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (lambda home: (home / "f").mkdir(), "is not a file"),
        (lambda home: os.mkfifo(home / "f"), "is not a file"),
        (lambda home: (home / "f").write_bytes(b"x" * (16 * 1024 * 1024 + 1)), "too large"),
    ],
    ids=["folder", "fifo", "large"],
)
def test_what_could_not_be_brought_back_is_refused(
    tmp_path: Path, home: Path, before: Callable[[Path], object], said: str
) -> None:
    before(home)
    _, outcome = _run(tmp_path, _copy(""))
    assert outcome.status is Status.FAILED
    assert said in outcome.message


def test_a_missing_folder_is_reported_with_a_fix(tmp_path: Path, home: Path) -> None:
    _, outcome = _run(tmp_path, "- name: it\n  copy: {content: x, dest: ~/a/b/f}\n")
    assert outcome.message == f"folder {home}/a/b not found"
    assert outcome.hint == f"create it first: file: {{path: {home}/a/b, state: directory}}"


def test_a_template_is_rendered_with_each_hosts_variables(tmp_path: Path, home: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "t.conf.j2").write_text("{{ inventory_hostname }} of {{ nodes }}\n")
    text = "- name: it\n  template: {src: t.conf.j2, dest: '~/{{ inventory_hostname }}/'}\n"
    for name in ("spark-01", "spark-02"):
        (home / name).mkdir()
    _, record = play(tmp_path, text, options=RunOptions(tp=2))
    assert {one.status for one in record.outcomes("it").values()} == {Status.CHANGED}
    assert (home / "spark-02" / "t.conf").read_text() == "spark-02 of 2\n"


def test_a_template_that_cannot_be_rendered_ends_the_run_with_its_place(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "t.j2").write_text("one\n{{ nothing }}\n")
    with pytest.raises(TemplateError, match="'nothing' is undefined") as caught:
        _run(tmp_path, f"{_copy('')}- template: {{src: t.j2, dest: ~/t}}\n")
    assert caught.value.problems[0].where is not None
    assert caught.value.problems[0].where.line == 2
    assert not (home / "f").exists()


def test_a_missing_source_is_reported(tmp_path: Path, home: Path) -> None:
    with pytest.raises(PlaybookError, match=r"file 'x\.j2' not found"):
        _run(tmp_path, "- name: it\n  template: {src: x.j2, dest: ~/t}\n")


@pytest.mark.parametrize(
    ("state", "check"),
    [
        ("state: directory, mode: '0750'", lambda path: path.is_dir() and _mode(path) == "0750"),
        ("state: touch", lambda path: path.read_bytes() == b""),
    ],
)
def test_file_makes_what_is_missing(
    tmp_path: Path, home: Path, state: str, check: Callable[[Path], bool]
) -> None:
    text = f"- name: it\n  file: {{path: ~/p, {state}}}\n"
    assert _run(tmp_path, text)[1].status is Status.CHANGED
    assert check(home / "p")


def test_file_changes_nothing_that_exists(tmp_path: Path, home: Path) -> None:
    text = "- name: it\n  file: {path: ~/a/b, state: directory}\n"
    assert [_run(tmp_path, text)[1].status for _ in range(2)] == [Status.CHANGED, Status.OK]
    gone = "- name: it\n  file: {path: ~/x, state: absent}\n"
    assert _run(tmp_path, gone)[1].status is Status.OK


@pytest.mark.parametrize(
    ("make", "state", "said"),
    [
        (Path.exists, "mode: '0600'", "not found"),
        (lambda path: path.touch(), "state: directory", "is not a folder"),
        (lambda path: (path / "x").mkdir(parents=True), "state: absent", "is not empty"),
        (os.mkfifo, "state: absent", "is not a file, link or folder"),
    ],
)
def test_file_refuses_what_it_cannot_do(
    tmp_path: Path, home: Path, make: Callable[[Path], object], state: str, said: str
) -> None:
    make(home / "p")
    _, outcome = _run(tmp_path, f"- name: it\n  file: {{path: ~/p, {state}}}\n")
    assert outcome.status is Status.FAILED
    assert said in outcome.message


def _tree(home: Path) -> dict[str, tuple[str, str]]:
    """Return what is below `home`: permissions, and content or target."""
    found = {}
    for path in sorted(home.rglob("*")):
        content = "" if path.is_dir() else path.read_text()
        if path.is_symlink():
            content = f"-> {path.readlink()}"
        found[str(path.relative_to(home))] = (format(path.lstat().st_mode, "o"), content)
    return found


@pytest.mark.parametrize(
    "task",
    [
        "copy: {content: new, dest: ~/file}",
        "copy: {content: new, dest: ~/fresh}",
        "copy: {content: old, dest: ~/file, mode: '0604'}",
        "copy: {content: new, dest: ~/link}",
        "file: {path: ~/file, state: absent}",
        "file: {path: ~/link, state: absent}",
        "file: {path: ~/empty, state: absent}",
        "file: {path: ~/file, mode: '0777'}",
        "file: {path: ~/empty, state: directory, mode: '0700'}",
        "file: {path: ~/a/b/c, state: directory}",
        "file: {path: ~/fresh, state: touch}",
    ],
)
def test_undo_restores_the_previous_state(tmp_path: Path, home: Path, task: str) -> None:
    (home / "file").write_text("old")
    (home / "file").chmod(0o640)
    (home / "link").symlink_to("file")
    (home / "empty").mkdir(mode=0o711)
    before = _tree(home)
    ended, outcome = _run(tmp_path, f"- name: it\n  {task}\n{FAIL}")
    assert outcome.status is Status.CHANGED
    assert ended.exit_code == 2
    assert _tree(home) == before


def test_undo_goes_back_through_every_change_of_the_same_file(tmp_path: Path, home: Path) -> None:
    (home / "f").write_text("first")
    text = "".join(f"- copy: {{content: {word}, dest: ~/f}}\n" for word in ("second", "third"))
    play(tmp_path, text + FAIL, hosts=ONE)
    assert (home / "f").read_text() == "first"


def test_what_is_not_wanted_is_not_read_into_a_difference(tmp_path: Path, home: Path) -> None:
    (home / "f").write_bytes(b"\xff\xfe")
    _, outcome = _run(tmp_path, _copy(""))
    assert (outcome.changes[0].before, outcome.changes[0].after) == (None, "new")
