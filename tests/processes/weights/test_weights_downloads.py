"""Obstacles between a host and the Hub: proxies, mirrors, rate limits, files that changed."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from sparkfleet.errors import CommandError, GateError
from sparkfleet.onhost.shared.weights import downloads
from sparkfleet.weights import hub
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.transfer.sources import HubSource
from tests.doubles.hub_server import READER, HubServer, Trouble
from tests.weights import UserLink, files, one, self_signed

pytestmark = pytest.mark.usefixtures("isolated", "short_waits")

NAME = "nvidia/Gemma-4-31B-IT-NVFP4"
FIRST = "model-00001-of-00003.safetensors"


@pytest.fixture
def server(empty_hub: HubServer) -> HubServer:
    empty_hub.add(NAME, files())
    empty_hub.add("meta/gated", files(2000), gated=True)
    return empty_hub


def source(name: str = NAME, token: str = "") -> HubSource:
    return HubSource(
        url=hub.resolve_url(hub.resolve_manifest(name, token=token or None)), token=token
    )


class Proxy(BaseHTTPRequestHandler):
    """A forward proxy, which leaves redirects to who asks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kept = {name: text for name, text in self.headers.items() if name in KEPT}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)
        try:
            reply = opener.open(urllib.request.Request(self.path, headers=kept))
        except urllib.error.HTTPError as error:
            reply = error
        body = reply.read()
        self.send_response(reply.status)
        for name in ("Location", "Content-Range", "X-Error-Message"):
            if reply.headers.get(name):
                self.send_header(name, reply.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


KEPT = ("Authorization", "Range")


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object) -> None:
        return None


@pytest.fixture
def proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_token_passes_a_redirect_of_the_hub_behind_a_proxy(
    server: HubServer, proxy: str, tmp_path: Path
) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest("meta/gated", token=READER)
    spark.links = {"spark-01": UserLink("spark-01", http_proxy=proxy, no_proxy="")}
    spark.stage(manifest, source("meta/gated", READER))
    assert spark.complete(manifest)


def test_a_mirror_without_ranges_goes_on_at_the_byte(server: HubServer, tmp_path: Path) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    server.ranges = False
    server.troubles += [Trouble(cut=60_001)] * 3
    spark.stage(manifest, source())
    assert spark.complete(manifest)


def test_the_retry_time_of_the_hub_is_respected(server: HubServer, tmp_path: Path) -> None:
    spark, manifest, where = one(tmp_path / "hosts"), hub.resolve_manifest(NAME), source()
    server.troubles.append(Trouble(status=429, limit_ends=1))
    start = time.monotonic()
    spark.stage(manifest, where)
    assert spark.complete(manifest)
    assert time.monotonic() - start > 1


def change(server: HubServer, body: bytes | None) -> None:
    """Let the Hub hold other bytes under the first shard's name than it lists, or none."""
    repository = server.repositories[NAME]
    entries = dict(repository.entries)
    entry = entries.pop(FIRST)
    if body is not None:
        entries[FIRST] = replace(entry, body=body)
    server.repositories[NAME] = replace(repository, entries=entries)


def test_a_body_that_goes_on_too_long_spoils_no_other_file(
    server: HubServer, tmp_path: Path
) -> None:
    spark, manifest, where = one(tmp_path / "hosts"), hub.resolve_manifest(NAME), source()
    change(server, b"<html>" + files()[FIRST] + b"</html>")
    with pytest.raises(GateError, match="arrived from the Hub with hash"):
        spark.stage(manifest, where)
    missing = {finding.path for finding in spark.inspect(manifest)["spark-01"].findings}
    blobs = {path.name for path in (spark.root("spark-01") / "hub").rglob("blobs/*")}
    assert len(blobs) == len({file.hash for file in manifest.files}) - 1
    assert len(missing) == len(manifest.files)  # none has its name until all are right


@pytest.mark.parametrize(("body", "status"), [(files()[FIRST][:-500], 416), (None, 404)])
def test_a_missing_file_is_not_reported_as_a_licence_problem(
    server: HubServer, tmp_path: Path, body: bytes | None, status: int
) -> None:
    spark, manifest, where = one(tmp_path / "hosts"), hub.resolve_manifest(NAME), source()
    change(server, body)
    with pytest.raises(CommandError, match=re.escape(f"refuses {FIRST}: {status}")) as caught:
        spark.stage(manifest, where)
    assert "weights_revision" in str(caught.value.hint)


# huggingface/hub-docs#2628: large files come from other hosts, which a firewall may not pass.
def test_a_blocked_store_of_large_files_is_not_reported_as_a_licence_problem(
    server: HubServer, tmp_path: Path
) -> None:
    spark, manifest, where = one(tmp_path / "hosts"), hub.resolve_manifest(NAME), source()
    server.troubles += [Trouble(), Trouble(status=403)]
    store = server.cdn.removeprefix("http://")
    with pytest.raises(CommandError, match=f"{store} refuses {FIRST}: 403") as caught:
        spark.stage(manifest, where)
    assert "firewall" in str(caught.value.hint)


def test_a_store_that_gives_no_answer_is_named_and_asked_again() -> None:
    error = urllib.error.URLError(ConnectionRefusedError("Connection refused"))
    result = downloads.explain_download_error(error, FIRST, "cdn.example:8443")
    assert result == ("cdn.example:8443: Connection refused", 0.0)


# sovgrid.org, "hf download lies at 22 GB": on a DGX Spark, IPv6 that leads nowhere.
def test_names_are_tried_by_ipv4_first(monkeypatch: pytest.MonkeyPatch) -> None:
    families = [socket.AF_INET6, socket.AF_INET, socket.AF_INET6]
    rows = [(family, socket.SOCK_STREAM, 6, "", (family.name, 443)) for family in families]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    downloads.prefer_ipv4()
    found = socket.getaddrinfo("cdn.example", 443)
    assert [row[0] for row in found] == [socket.AF_INET, socket.AF_INET6, socket.AF_INET6]


# zylon-ai/private-gpt#1854: a proxy that refuses, and is not named.
@pytest.mark.parametrize("proxy", ["http://me:secret@10.0.0.1:3128/", "10.0.0.1:3128"])
def test_the_proxy_of_a_host_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setenv("no_proxy", "hub.example")
    for name in ("http_proxy", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    result = downloads.describe_route("https://cdn.example/aa?key=b")
    assert result == "cdn.example through the proxy 10.0.0.1:3128"
    assert downloads.describe_route("https://hub.example/org/model") == "hub.example"
    assert downloads.describe_route("http://cdn.example:80/aa") == "cdn.example:80"


# huggingface/xet-core#389, huggingface/huggingface_hub#1271: a proxy opens TLS.
def test_an_untrusted_certificate_is_reported_at_once_with_its_fix(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        address = f"127.0.0.1:{running.server_port}"
        with pytest.raises(
            CommandError, match=f"the TLS certificate of {address} is not trusted"
        ) as caught:
            spark.stage(manifest, HubSource(url=f"https://{address}/"))
        assert "update-ca-certificates" in str(caught.value.hint)
        monkeypatch.setattr(constants, "ENDPOINT", f"https://{address}")
        with pytest.raises(HubError, match="CERTIFICATE_VERIFY_FAILED") as refused:
            hub.resolve_manifest(NAME)
        assert "SSL_CERT_FILE" in str(refused.value.hint)
        running.shutdown()
