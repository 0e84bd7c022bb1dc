"""Names, tokens, answers and mirrors that are not as they should be, by the Hub's true client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, errors

from sparkfleet.errors import CommandError
from sparkfleet.weights import hub
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.manifest import locate_user_cache
from sparkfleet.weights.transfer.sources import HubSource
from tests.doubles.hub_server import READER, HubServer, Trouble
from tests.weights import files, one

pytestmark = pytest.mark.usefixtures("isolated", "short_waits")

NAME = "nvidia/Gemma-4-31B-IT-NVFP4"


@pytest.fixture
def server(empty_hub: HubServer) -> HubServer:
    empty_hub.add(NAME, files(2000))
    return empty_hub


@contextmanager
def redirecting(address: str) -> Iterator[str]:
    """Run a server that leads everybody to the same path at `address`; yield its own."""

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(308)
            self.send_header("Location", address + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirect) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@contextmanager
def other(body: bytes) -> Iterator[str]:
    """Run a server that answers everything with `body`; yield its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize(
    "name",
    [
        "https://huggingface.co/org/name",
        "org/name/",
        "org/name:Q4_K_M",
        "org name",
        "/models/x",
        "",
    ],
)
def test_an_invalid_name_is_refused_without_a_request(server: HubServer, name: str) -> None:
    with pytest.raises(HubError, match="is not the name of a model on the Hub") as caught:
        hub.resolve_manifest(name)
    assert "ORG/NAME" in str(caught.value.hint)
    assert server.requests == []


# huggingface/huggingface_hub#3838 and #2090: the Hub knows a name in any case, a disk does not.
def test_another_spelling_of_a_name_costs_no_byte(server: HubServer, tmp_path: Path) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    spark.stage(manifest, HubSource(url=hub.resolve_url(manifest)))
    server.moved[NAME.lower()] = NAME
    other = hub.resolve_manifest(NAME.lower())
    assert spark.stage(other).landed["spark-01"].bytes == 0
    assert spark.complete(other)


@pytest.mark.parametrize("name", ["gpt2", "org/name.v2-x_y"])
def test_a_name_without_an_owner_is_one(server: HubServer, tmp_path: Path, name: str) -> None:
    server.add(name, files(2000))
    manifest, spark = hub.resolve_manifest(name), one(tmp_path / "hosts")
    spark.stage(manifest, HubSource(url=hub.resolve_url(manifest)))
    assert spark.complete(manifest)


@pytest.mark.parametrize("revision", ["refs/pr/1", "feature/x y"])
def test_a_revision_with_a_slash_is_where_the_client_looks(
    server: HubServer, tmp_path: Path, revision: str
) -> None:
    server.branches.append(revision)
    manifest, spark = hub.resolve_manifest(NAME, revision), one(tmp_path / "hosts")
    spark.stage(manifest, HubSource(url=hub.resolve_url(manifest)))
    assert spark.complete(manifest)
    folder = "hub/models--nvidia--Gemma-4-31B-IT-NVFP4/refs"
    assert (spark.root("spark-01") / folder / revision).read_text() == manifest.commit


def test_a_repository_that_moved_is_followed_with_the_token(
    server: HubServer, tmp_path: Path
) -> None:
    server.add("google/new", files(2000), gated=True)
    server.moved["google/old"] = "google/new"
    manifest, spark = hub.resolve_manifest("google/old", token=READER), one(tmp_path / "hosts")
    source = HubSource(url=hub.resolve_url(manifest), token=READER)
    hub.check_access(source, "config.json")
    spark.stage(manifest, source)
    assert spark.complete(manifest)


def test_file_names_with_any_characters_are_listed_and_fetched(
    server: HubServer, tmp_path: Path
) -> None:
    names = ("a b/c ü 漢.json", "q'\"$x\\n.json", "100%.txt", "a#b?c.txt", "empty.txt", "+.json")
    server.add(NAME, {name: name.encode() if name != "empty.txt" else b"" for name in names})
    manifest, spark = hub.resolve_manifest(NAME), one(tmp_path / "hosts")
    source = HubSource(url=hub.resolve_url(manifest))
    for name in names:
        hub.check_access(source, name)
    spark.stage(manifest, source)
    assert spark.complete(manifest)


@pytest.mark.parametrize(
    "body",
    [b"<html>please log in</html>", b"[]", b'{"error": "x"}', b'{"id": "org/name"}', b""],
)
def test_a_server_that_is_not_a_hub_is_reported(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    with other(body) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        with pytest.raises(HubError, match=r"not the Hub|no commit or file list") as caught:
            hub.resolve_manifest("org/name")
    assert "HF_ENDPOINT" in str(caught.value.hint)


def test_a_mirror_that_lists_no_sizes_is_asked_for_each_file(server: HubServer) -> None:
    whole = hub.resolve_manifest(NAME)
    server.sizes = False
    (locate_user_cache() / "manifests").rename(locate_user_cache() / "before")
    assert hub.resolve_manifest(NAME) == whole


def test_a_mirror_without_any_hash_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listing: dict[str, Any] = {"id": "org/name", "sha": "a" * 40}
    listing["siblings"] = [{"rfilename": "config.json"}]
    with other(json.dumps(listing).encode()) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        with pytest.raises(HubError):
            hub.resolve_manifest("org/name")


def test_a_mirror_without_head_is_used(server: HubServer, tmp_path: Path) -> None:
    manifest, spark = hub.resolve_manifest(NAME), one(tmp_path / "hosts")
    server.heads = False
    source = HubSource(url=hub.resolve_url(manifest))
    hub.check_access(source, "config.json")
    spark.stage(manifest, source)
    assert spark.complete(manifest)


def test_a_kept_manifest_that_a_power_cut_emptied_is_asked_for_again(server: HubServer) -> None:
    manifest = hub.resolve_manifest(NAME)
    for path in locate_user_cache().rglob("*"):
        if path.is_file():
            path.write_text("")
    assert hub.resolve_manifest(NAME, str(manifest.commit)).files == manifest.files


def test_a_read_only_cache_does_not_matter(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert hub.resolve_manifest(NAME).files


def test_the_clients_own_offline_variable_means_offline(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = hub.resolve_manifest(NAME)
    asked = len(server.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.resolve_manifest(NAME) == manifest
    assert len(server.requests) == asked


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00h"])
def test_a_token_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "token"
    path.mkdir() if content is None else path.write_bytes(content)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(path))
    with pytest.raises(HubError, match=f"cannot read the token in {path}"):
        hub.read_token()


def test_a_token_with_invalid_characters_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "\u201chf_secret\u201d")
    with pytest.raises(
        HubError, match=r"HF_TOKEN or .*token contains invalid characters"
    ) as caught:
        hub.read_token()
    assert "hf_secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("", "Access to this resource is disabled.", f"the Hub has disabled {NAME}"),
        ("GatedRepo", "Your request is awaiting a review.", "awaiting a review"),
    ],
)
def test_the_hubs_reason_for_a_refusal_is_shown(
    server: HubServer, code: str, message: str, expected: str
) -> None:
    server.troubles.append(Trouble(status=403, code=code, message=message))
    with pytest.raises(HubError, match=expected):
        hub.resolve_manifest(NAME, token=READER)


@pytest.mark.parametrize(
    "error",
    [
        errors.LocalEntryNotFoundError("cannot locate the file on the Hub"),
        errors.FileMetadataError("no ETag"),
        errors.SafetensorsParsingError("not a safetensors file"),
    ],
)
def test_every_error_of_the_client_becomes_an_error_of_sparkfleet(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(HubError, match=str(error)) as caught:
        hub.query_hub(fail, NAME, None)
    assert caught.value.hint


# eugr/spark-vllm-docker#146: a mirror in the own network
@pytest.mark.parametrize("address", ["hf-mirror.example", "htps://hf-mirror.example"])
def test_an_address_without_a_scheme_is_reported(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", address)
    with pytest.raises(HubError, match=f"cannot reach the Hub at {address}") as caught:
        hub.resolve_manifest(NAME)
    assert "check HF_ENDPOINT" in str(caught.value.hint)


# huggingface/huggingface_hub#4637: a mirror that only redirects to the Hub.
def test_a_mirror_that_redirects_is_followed_without_the_token(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("meta/gated", files(3000), gated=True)
    with redirecting(server.url) as mirror:
        monkeypatch.setattr(constants, "ENDPOINT", mirror)
        manifest, spark = hub.resolve_manifest(NAME), one(tmp_path / "hosts")
        source = HubSource(url=hub.resolve_url(manifest))
        hub.check_access(source, "config.json")
        spark.stage(manifest, source)
        assert spark.complete(manifest)
        gated = hub.resolve_manifest("meta/gated", token=READER)
        with pytest.raises(CommandError, match="401 Access to model") as caught:
            spark.stage(gated, HubSource(url=hub.resolve_url(gated), token=READER))
        assert "redirect drops the token" in str(caught.value.hint)


# yurhett/hf-proxy#1: a proxy before the Hub refuses, in other words than the Hub.
@pytest.mark.parametrize("token", [None, READER])
def test_a_refusal_by_another_server_does_not_blame_the_token(
    server: HubServer, token: str | None
) -> None:
    server.troubles.append(Trouble(status=403))
    with pytest.raises(HubError, match=f"the server at .* refuses {NAME}: status 403") as caught:
        hub.resolve_manifest(NAME, token=token)
    assert "a proxy" in str(caught.value.hint)
