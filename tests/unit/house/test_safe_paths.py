"""Whatever others write where a path is made of it: below its root, or refused."""

from __future__ import annotations

import ast
import errno
import importlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet import safe_paths
from sparkfleet.onhost.shared import paths
from sparkfleet.onhost.shared.paths import RefusedError
from sparkfleet.resources import expand_home, is_existing_file, is_existing_folder, resolve_path
from sparkfleet.safe_paths import UnexpectedError
from tests.budget import scale_examples
from tests.source import list_nodes

PIECES = [
    *("", ".", "..", "...", "~", "-", "-x", ".ssh", "a", "blobs", "in", "out", "loop", "x" * 256),
    *(
        "\0",
        "\n",
        "\x1b]52;c;x\x07",
        "\x7f",
        "\x85",
        "\ud800",
        "\udc80",
        "ä",
        "\u202e",
        "a b",
        "\\",
    ),
    *("%2e%2e", "..\\", ". ", " ..", "日本", "é" * 128),
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=6).map("/".join)
EXAMPLES = scale_examples(80)
ONCE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_a_home_without_a_user_stays_as_it_is_written() -> None:
    assert expand_home("~no-such-user/x") == Path("~no-such-user/x")
    assert expand_home("~a\0b/x") == Path("~a\0b/x")
    assert expand_home("~/x") == Path.home() / "x"
    assert expand_home(Path("a/~")) == Path("a/~")


def test_links_in_a_circle_stay_as_they_are_written(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert resolve_path(loop) == loop
    assert resolve_path(f"{tmp_path}/a\0b") == tmp_path / "a\0b"
    assert resolve_path(tmp_path / "x" / "..") == tmp_path.resolve()


@pytest.mark.parametrize("method", ["expanduser", "resolve"])
def test_paths_are_completed_by_functions_that_never_fail(method: str) -> None:
    """Those of pathlib raise RuntimeError: for a user that is not there, and links in a circle."""
    elsewhere = ("onhost/", "lab/")  # programs for hosts, and paths that no user typed
    found = [
        name
        for name, nodes in list_nodes().items()
        if not name.startswith(elsewhere)
        and any(_calls_path_method(node, method) for node in nodes)
    ]
    assert [name for name in found if name != "resources.py"] == []


def _calls_path_method(node: ast.AST, method: str) -> bool:
    """Return whether a node calls a method of that name without an argument."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and not node.args
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root that is a link, with links in it that stay, that leave and that go round."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "real" / "blobs").mkdir(parents=True)
    (tmp_path / "real" / "in").symlink_to("blobs")
    (tmp_path / "real" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "real" / "loop").symlink_to("loop")
    (tmp_path / "root").symlink_to("real")
    return tmp_path / "root"


@ONCE
@given(HOSTILE)
def test_a_path_is_below_its_root_or_refused(root: Path, name: str) -> None:
    for make, seen in (
        (paths.join_contained_path, "parent"),
        (paths.join_contained_folder, "itself"),
    ):
        try:
            path = make(root, name)
        except RefusedError:
            continue
        real = Path(os.path.realpath(path.parent if seen == "parent" else path))
        assert real.is_relative_to(root.resolve())
        assert path != root
        assert ".." not in path.relative_to(root).parts


@ONCE
@given(HOSTILE)
def test_the_rule_is_that_of_the_filesystem(name: str) -> None:
    if safe_paths.is_below(name):
        assert os.path.normpath(name) == name
        assert not name.startswith(("/", "../"))
        assert safe_paths.check_relative_path("file name", name) == name
        assert all(map(safe_paths.is_name, name.split("/")))
        os.fsencode(name)
    else:
        with pytest.raises(UnexpectedError, match="unexpected file name: "):
            safe_paths.check_relative_path("file name", name)


@ONCE
@given(HOSTILE)
def test_a_cluster_is_one_plain_component(name: str) -> None:
    if safe_paths.is_cluster_name(name):
        assert paths.locate_cluster_folder("/srv", name).parent == Path("/srv")
        assert safe_paths.is_name(name)
        assert name.isascii()
        assert not name.startswith((".", "-"))
    else:
        with pytest.raises(RefusedError, match="not a valid cluster name"):
            paths.locate_cluster_folder("/srv", name)


@ONCE
@given(st.text(max_size=41) | st.text("0123456789abcdefABCDEF", min_size=39, max_size=41))
def test_hex_is_hex_and_nothing_else(text: str) -> None:
    if re.fullmatch("[0-9a-f]{40}", text):
        assert safe_paths.check_hex_digits("commit id", text, safe_paths.GIT) == text
    else:
        with pytest.raises(UnexpectedError, match=r"\(expected 40 hex digits\)") as caught:
            safe_paths.check_hex_digits("commit id", text, safe_paths.GIT)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 1, True, [], {}, b"a"])
@pytest.mark.parametrize(
    "judge", [safe_paths.is_name, safe_paths.is_below, safe_paths.is_cluster_name]
)
def test_other_types_are_no_names(judge: Callable[[object], bool], value: object) -> None:
    assert not judge(value)


@pytest.mark.parametrize(
    "name", ["main", "refs/pr/1", "v1.0", "feature/x-y", "...", "模型.gguf", "a b", "\udc80"]
)
def test_usual_names_pass(name: str) -> None:
    assert safe_paths.is_below(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "/x", "x/", "a//b", "./x", "a/..", "a/../b", "a\nb", "a\0b"]
)
def test_what_leads_elsewhere_does_not(name: str) -> None:
    assert not safe_paths.is_below(name)


def test_a_link_that_leaves_is_named_and_one_that_stays_is_followed(root: Path) -> None:
    assert paths.join_contained_path(root, "in/x") == root / "in" / "x"
    assert paths.join_contained_path(root, "out") == root / "out"
    for make, name in ((paths.join_contained_path, "out/x"), (paths.join_contained_folder, "out")):
        with pytest.raises(RefusedError, match="/out leads out of "):
            make(root, name)


def test_a_file_to_read_may_stand_in_a_cache_elsewhere(root: Path) -> None:
    assert paths.resolve_source_file(root, "/data/cache/x") == Path("/data/cache/x")
    for name in ("/data/../x", "//x", "/", "../x"):
        with pytest.raises(RefusedError):
            paths.resolve_source_file(root, name)


def test_what_is_shown_is_short_and_plain() -> None:
    assert paths.shorten_value("../../x") == "'../../x'"
    assert len(paths.shorten_value("x" * 1000)) == paths.SHOWN
    assert "\x1b" not in paths.shorten_value("\x1b[2J")


@pytest.mark.parametrize("look", [is_existing_file, is_existing_folder])
def test_nothing_has_a_name_that_is_too_long(
    look: Callable[[Path], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_path: Path) -> bool:
        raise PermissionError(errno.EACCES, "denied")

    assert look(tmp_path) is (look is is_existing_folder)
    assert not look(tmp_path / ("9" * 400))
    monkeypatch.setattr(Path, "is_file", deny)
    monkeypatch.setattr(Path, "is_dir", deny)
    with pytest.raises(PermissionError):
        look(tmp_path)


@pytest.mark.parametrize(
    "expand", [paths.expand_folder, lambda folder: paths.locate_cluster_folder(folder, "desk")]
)
def test_the_folder_of_an_unknown_user_is_refused(expand: Callable[[str], Path]) -> None:
    with pytest.raises(RefusedError) as refusal:
        expand("~nobody-at-all/vllm")
    assert refusal.value.answer() == {
        "error": "~nobody-at-all/vllm: no such user on this host",
        "hint": "use ~/FOLDER or an absolute path in cluster_dir and weights_dir",
    }


@pytest.mark.parametrize("program", ["containers", "health", "memory_guard", "processes", "unlock"])
def test_programs_answer_for_the_folder_of_an_unknown_user(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"cluster_dir": "~nobody-at-all/vllm", "cluster": "desk", "do": "survey"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request) + "\n"))
    importlib.import_module(f"sparkfleet.onhost.deployment.{program}").main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "~nobody-at-all/vllm: no such user on this host"
