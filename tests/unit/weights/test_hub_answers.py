"""A Hub, or a mirror of it, that answers what leads elsewhere: refused before a host is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sparkfleet.safe_paths import is_below
from sparkfleet.weights import hub, layout
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.manifest import Manifest, dump_manifest, locate_user_cache, parse_manifest
from tests.budget import limit_cpu_time, scale_examples
from tests.doubles.hub_server import HubFile, HubServer
from tests.weights import COMMIT, files, shard

pytestmark = pytest.mark.usefixtures("isolated", "short_waits")

NAME = "org/model"
EXAMPLES = scale_examples(20)
INVENTORY = """\
sparks:
  hosts:
    here:
      ansible_connection: local
  vars:
    engine: native
    engine_venv: ~/vllm-env
"""
RECIPE = """\
description: a test
source: none
vllm_model: org/model
vllm_args: {max-model-len: 256}
"""
ELSEWHERE = ["../../../../.ssh", "..", "", "/etc", "a/b", "A" * 40, "0" * 39, "0" * 41, "x" * 40]


@pytest.fixture
def server(empty_hub: HubServer) -> HubServer:
    empty_hub.add(NAME, files(2000))
    return empty_hub


def change(server: HubServer, **fields: str) -> None:
    """Let the repository have another commit, or its first files another path or hash."""
    found = server.repositories[NAME]
    commit = fields.pop("commit", found.commit)
    kind = fields.pop("kind", "large")
    entries: dict[str, HubFile] = {}
    for path, entry in found.entries.items():
        chosen = entry.large if kind == "large" else not entry.large
        entries[path] = replace(entry, **fields) if chosen else entry  # type: ignore[arg-type]  # by name
    server.repositories[NAME] = replace(found, commit=commit, entries=entries)


def test_a_commit_does_not_lead_to_the_keys_of_a_host(server: HubServer, tmp_path: Path) -> None:
    server.add(
        NAME, {"authorized_keys": b"mine", "model.safetensors": shard(9), "config.json": b"{}"}
    )
    change(server, commit="../../../../.ssh")
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    (tmp_path / "r.yml").write_text(RECIPE)
    words = ["weights.stage", "--inventory", "inventory.yml", "--recipe", "r.yml"]
    done = subprocess.run(
        [sys.executable, "-m", "sparkfleet", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "HF_ENDPOINT": server.url},
    )
    assert done.returncode == 5, done.stdout + done.stderr
    result = f"unexpected commit id of org/model from {server.url}: '../../../../.ssh'"
    assert f"{result} (expected 40 hex digits)" in " ".join(done.stderr.split())
    assert "HF_ENDPOINT" in done.stderr
    assert not list((tmp_path / "home").rglob("authorized_keys"))
    assert not (tmp_path / "home" / ".ssh").exists()


@pytest.mark.parametrize("commit", ELSEWHERE)
def test_a_commit_is_40_hex_digits(server: HubServer, commit: str) -> None:
    change(server, commit=commit)
    with pytest.raises(HubError, match=r"unexpected commit id|no commit or file list") as caught:
        hub.resolve_manifest(NAME)
    assert caught.value.hint
    assert not (locate_user_cache() / "manifests").exists()


@pytest.mark.parametrize("etag", ["../../../x", "0" * 63, "0" * 40, "A" * 64])
def test_the_hash_of_a_large_file_is_64_hex_digits(server: HubServer, etag: str) -> None:
    change(server, etag=etag)
    with pytest.raises(HubError, match=r"unexpected SHA-256 of \S+ of org/model from http"):
        hub.resolve_manifest(NAME)


@pytest.mark.parametrize("blob", ["../../../x", "0" * 39, "0" * 64, "A" * 40])
def test_the_hash_of_a_small_file_is_40_hex_digits(server: HubServer, blob: str) -> None:
    change(server, kind="small", git_sha1=blob)
    with pytest.raises(HubError, match=r"unexpected blob id of \S+ of org/model from http"):
        hub.resolve_manifest(NAME)


@pytest.mark.parametrize("etag", ["." * 40, "../" * 13 + "x", "/" * 64])
def test_hashes_in_headers_of_a_mirror_are_checked_as_strictly(
    server: HubServer, etag: str
) -> None:
    server.sizes = False
    change(server, kind="small", etag=etag)
    with pytest.raises(HubError, match=r"unexpected blob id|unexpected SHA-256"):
        hub.resolve_manifest(NAME)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//b", "./a", "a\nb", "a\x1b[2J"])
def test_a_file_stays_below_its_model(server: HubServer, path: str) -> None:
    change(server, path=path)
    with pytest.raises(HubError, match="unexpected file name of org/model from http") as caught:
        hub.resolve_manifest(NAME)
    assert caught.value.message.isprintable()
    server.sizes = False
    with pytest.raises(HubError, match="unexpected file name of org/model from http"):
        hub.resolve_manifest(NAME)


@pytest.mark.parametrize("revision", ["..", "../x", "/x", "a//b", "", "a\nb"])
def test_a_revision_stays_below_refs(server: HubServer, revision: str) -> None:
    with pytest.raises(HubError, match="is not a revision of org/model") as caught:
        hub.resolve_manifest(NAME, revision)
    assert "weights_revision" in (caught.value.hint or "")
    assert server.requests == []


def test_a_revision_may_have_slashes(server: HubServer) -> None:
    server.branches.append("refs/pr/1")
    manifest = hub.resolve_manifest(NAME, "refs/pr/1")
    assert layout.locate_ref(manifest) == "hub/models--org--model/refs/refs/pr/1"


def test_a_cached_manifest_is_checked_as_strictly(server: HubServer) -> None:
    good = hub.resolve_manifest(NAME)
    (kept,) = (locate_user_cache() / "manifests").rglob("main")
    kept.write_text(dump_manifest(good).replace(str(good.commit), "../../../../.ssh"))
    with pytest.raises(ValueError, match="unexpected commit id"):
        parse_manifest(kept.read_text())
    with pytest.raises(HubError, match="is not cached"):
        hub.resolve_manifest(NAME, offline=True)
    assert hub.resolve_manifest(NAME) == good


@pytest.mark.parametrize("name", ["..", "../x", "/x", "a//b", ""])
def test_a_manifest_is_of_a_folder_below_the_weights_folder(name: str) -> None:
    with pytest.raises(ValueError, match="unexpected model name"):
        Manifest(name=name, files=(), commit=COMMIT)


PIECES = st.sampled_from(["..", ".", "", "/", "a", "~", "\0", "\n", "\x1b", "0" * 40, "f" * 64])
TEXTS = st.lists(PIECES, min_size=1, max_size=5).map("/".join) | st.text(max_size=8)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    field=st.sampled_from(["commit", "path", "etag", "git_sha1"]),
    value=TEXTS,
    sizes=st.booleans(),
)
@example(field="path", value="../x", sizes=False)  # the size of each file is asked for by its name
def test_no_answer_leads_to_another_place(
    server: HubServer, *, field: str, value: str, sizes: bool
) -> None:
    server.add(NAME, files(100))
    server.sizes = sizes
    server.requests.clear()
    change(server, kind="small" if field == "git_sha1" else "large", **{field: value})
    try:
        with limit_cpu_time():
            manifest = hub.resolve_manifest(NAME)
    except HubError:
        return
    finally:
        asked = [unquote(urlsplit(request.split(" ")[-1]).path) for request in server.requests]
        below = f"/resolve/{server.repositories[NAME].commit}/"
        assert not [path for path in asked if "/resolve/" in path and below not in path]
    home = layout.locate_model_folder(manifest)
    for place in layout.list_file_locations(manifest):
        assert is_below(place.path)
        assert is_below(place.blob)
        assert place.path.startswith(f"{home}/snapshots/")
        assert place.blob.startswith(f"{home}/blobs/")
    assert all(map(is_below, layout.build_metadata_files(manifest)))
