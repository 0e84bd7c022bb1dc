"""Requests whose paths lead elsewhere: each program refuses them, and nothing was made before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.onhost.shared.paths import RefusedError
from sparkfleet.onhost.weights import place, receiver, store
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.transfer.session import ProgramSession
from tests.budget import scale_examples
from tests.variations import keep_some

pytestmark = pytest.mark.usefixtures("isolated")

GOOD = "hub/models--o--m/blobs/" + "0" * 64
BODY = b"mine"
HASH = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
LEADING = [
    "../x",
    "../../.ssh/authorized_keys",
    "/proc/x",
    "a/../../x",
    "",
    ".",
    "..",
    "a//b",
    "a\0b",
]
EXAMPLES = scale_examples(40)


@pytest.fixture
def link() -> LocalConnection:
    return LocalConnection(Host(name="here"))


def tree(folder: Path) -> dict[str, Any]:
    """Return all that is below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def placing(root: Path, name: str, kind: str) -> dict[str, Any]:
    item = {"path": "m/config.json", "blob": GOOD, "have": GOOD, "hash": HASH}
    texts = {name: "x"} if kind == "text" else {"refs/main": "x"}
    items = [item, {**item, kind: name}] if kind != "text" else [item]
    return {"root": str(root), "items": items, "texts": texts}


def receiving(root: Path, name: str) -> dict[str, Any]:
    item = {"blob": GOOD, "size": len(BODY), "hash": HASH, "offset": 0}
    stream = {"source": None, "files": [item, {**item, "blob": name}]}
    return {"root": str(root), "streams": [stream]}


def sending(root: Path, name: str, kind: str) -> dict[str, Any]:
    file = {"size": 1, "path": name if kind == "path" else GOOD, "arriving": kind == "arriving"}
    more = {"address": "127.0.0.1", "peer": "127.0.0.1", "keys": ["k"], "hub": None}
    return {"root": str(root), "files": {GOOD if kind == "path" else name: file}, **more}


def storing(root: Path, name: str, kind: str) -> dict[str, Any]:
    asked = {"folder": "m", "served": "m", "expected": ["m/x"], "refs": [], "indexes": {}}
    value = {"indexes": {name: False}}.get(kind, [name] if kind in ("expected", "refs") else name)
    return {"root": str(root), **asked, kind: value}


def holding(root: Path, name: str, kind: str) -> dict[str, Any]:
    file = {"path": "m/x", "blob": "m/x", "size": 1, "hash": HASH, kind: name}
    asked = {"caches": [], "full": False, "ledger": str(root / "ledger"), "record": True}
    return {"root": str(root), "files": [file], **asked}


def removing(root: Path, name: str) -> dict[str, Any]:
    return {"root": str(root), "do": "remove", "folder": name}


def shaping(root: Path, name: str, kind: str) -> dict[str, Any]:
    return {"root": str(root), "model": "o/m", "revision": "main", kind: name}


KINDS: dict[str, tuple[Callable[..., dict[str, Any]], tuple[str, ...]]] = {
    "weights/receiver": (receiving, ()),
    "weights/store": (removing, ()),
    "weights/place": (placing, ("path", "blob", "text")),
    "weights/sender": (sending, ("blob", "arriving")),
    "weights/storage": (storing, ("folder", "served", "expected", "refs", "indexes")),
    "weights/tree": (holding, ("path", "blob")),
    "weights/shape": (shaping, ("model", "revision")),
}
ASKED = {
    " ".join((program, *kind)): (program, make, kind)
    for program, (make, kinds) in KINDS.items()
    for kind in ([[one] for one in kinds] or [[]])
}


@pytest.mark.parametrize("program", keep_some(ASKED, 6))
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_made(
    link: LocalConnection, tmp_path: Path, program: str
) -> None:
    root = tmp_path / "root"
    (root / "hub").mkdir(parents=True)
    before = tree(tmp_path)
    asked, make, kind = ASKED[program]
    for name in LEADING:
        if name == "." and kind in (["folder"], ["served"]):
            continue  # of loose files
        request = make(root, name, *kind)
        with pytest.raises(CommandError, match="not a path below ") as caught:
            link.run_program(asked, request, payload=[BODY, BODY])
        assert caught.value.hint
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../x", "path"), ("/data/../x", "path"), ("../x", "have"), ("/../x", "have")],
)
def test_files_to_read_are_named_by_plain_paths(
    link: LocalConnection, tmp_path: Path, name: str, kind: str
) -> None:
    program = "weights/sender" if kind == "path" else "weights/place"
    request = (sending if kind == "path" else placing)(tmp_path / "root", name, kind)
    with pytest.raises(CommandError, match="not a path below "):
        link.run_program(program, request, payload=[])
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    "program",
    ["weights/receiver", "weights/place path", "weights/place blob", "weights/place text"],
)
def test_a_link_that_leads_out_is_not_written_through(
    link: LocalConnection, tmp_path: Path, program: str
) -> None:
    root = tmp_path / "root"
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "hub").symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path)
    asked, make, kind = ASKED[program]
    request = make(root, "hub/m/config.json", *kind)
    with pytest.raises(CommandError, match=r"/hub/m.* leads out of "):
        link.run_program(asked, request, payload=[BODY, BODY])
    assert tree(tmp_path) == before


def test_a_model_that_is_linked_in_is_not_swept(link: LocalConnection, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.incomplete").touch()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "m").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match="/m leads out of "):
        link.run_program(
            "weights/store", {"root": str(tmp_path / "root"), "do": "remove", "folder": "m"}
        )
    assert (tmp_path / "elsewhere" / "x.incomplete").exists()


def test_a_text_replaces_a_link_and_does_not_follow_it(
    link: LocalConnection, tmp_path: Path
) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text("kept")
    (root / "refs").mkdir(parents=True)
    for name in ("main", "main.incomplete"):
        (root / "refs" / name).symlink_to(victim)
    request = {"root": str(root), "items": [], "texts": {"refs/main": "x"}}
    with ProgramSession(link, "weights/place", request) as work:
        work.answer()
    assert (victim.read_text(), (root / "refs" / "main").read_text()) == ("kept", "x")


def test_a_record_of_a_model_elsewhere_is_ignored(link: LocalConnection, tmp_path: Path) -> None:
    records = tmp_path / "root" / ".sparkfleet" / "manifests"
    records.mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (records / "x.json").write_text('{"name": "../victim", "commit": null}')
    (records / "y.json").write_text('{"name": [1], "commit": null}')
    (records / "z.json").write_text("[1]")
    answer = link.run_program("weights/store", {"root": str(tmp_path / "root"), "do": "list"})
    assert answer["models"] == []


def test_a_root_that_is_a_link_is_the_users_own_choice(
    link: LocalConnection, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    request = receiving(tmp_path / "root", "m/config.json")
    answer = link.run_program("weights/receiver", request, payload=[BODY, BODY])
    assert answer["landed"] == [GOOD, "m/config.json"]
    assert (tmp_path / "disk" / "m" / "config.json").read_bytes() == BODY


CLUSTERS = ["../x", "/proc/x", "..", ".", "", "a/b", "a\nb", "-x", ".x", "x" * 64]


@pytest.mark.parametrize(
    ("program", "more"),
    [
        ("deployment/processes", {"do": "write", "contents": {"x": "x"}}),
        ("deployment/processes", {"do": "stop", "grace": 0}),
        ("deployment/containers", {"do": "stop", "cli": "docker", "grace": 0}),
        ("deployment/memory_guard", {"patience": 0, "loading": 0}),
        ("deployment/vitals", {"port": None, "pids": [], "cli": "docker"}),
        ("host/environment", {"pids": {}}),
        ("deployment/unlock", {}),
        ("deployment/lock", {"folders": ["ROOT"], "wait": 0, "holder": {"host": "here"}}),
    ],
)
def test_a_cluster_is_one_folder(
    link: LocalConnection, tmp_path: Path, program: str, more: dict[str, Any]
) -> None:
    root = tmp_path / "root" / "clusters"
    root.mkdir(parents=True)
    before = tree(tmp_path)
    for cluster in CLUSTERS:
        request = {"cluster_dir": str(root), "cluster": cluster, **more}
        if "folders" in more:
            request["folders"] = [str(root)]
        with pytest.raises(CommandError, match="not a valid cluster name: ") as caught:
            link.run_program(program, request)
        assert "cluster_name" in str(caught.value.hint)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", LEADING)
def test_a_file_of_a_deployment_stays_in_its_folder(
    link: LocalConnection, tmp_path: Path, name: str
) -> None:
    request = {"cluster_dir": str(tmp_path / "root"), "cluster": "desk", "do": "write"}
    with pytest.raises(CommandError, match="not a path below "):
        link.run_program(
            "deployment/processes", {**request, "contents": {"good.sh": "x", name: "x"}}
        )
    assert not (tmp_path / "root").exists()


PIECES = st.sampled_from(["..", ".", "", "a", "out", "in", "~", "\0", "\n", "\ud800", "x" * 256])


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(PIECES, max_size=5).map("/".join))
def test_no_request_changes_a_neighbouring_folder(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    (tmp_path / "beside").mkdir(exist_ok=True)
    (root / "real").mkdir(parents=True, exist_ok=True)
    for link, target in (("out", tmp_path / "beside"), ("in", root / "real")):
        if not (root / link).is_symlink():
            (root / link).symlink_to(target)
    item = {"blob": name, "size": 0, "hash": HASH, "offset": 0}
    for work, made in (
        (lambda: place.check(root, placing(root, name, "path")), (root / name).parent),
        (lambda: receiver.check(root, [{"files": [item]}]), (root / name).parent),
        (lambda: store.remove_staged_files(root, {"folder": name}), root / name),
    ):
        try:
            work()
        except RefusedError:
            continue
        assert Path(os.path.realpath(made)).is_relative_to(root)
    assert not list((tmp_path / "beside").iterdir())
