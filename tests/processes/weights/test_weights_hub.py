"""The true client against a Hub of this machine: what is refused, what is kept, what is brought."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from sparkfleet.errors import CommandError
from sparkfleet.weights import hub, layout
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.transfer import delivery, sources
from sparkfleet.weights.transfer.progress import TransferProgress
from sparkfleet.weights.transfer.routes import share_no_address
from tests.doubles.hub_server import READER, HubServer, Trouble
from tests.weights import LOOPBACK, Sparks, files, one

pytestmark = pytest.mark.usefixtures("isolated", "short_waits")

NAME = "nvidia/Gemma-4-31B-IT-NVFP4"


@pytest.fixture
def server(empty_hub: HubServer) -> HubServer:
    empty_hub.add(NAME, files())
    empty_hub.add("meta/gated", files(), gated=True)
    empty_hub.add("me/private", files(), private=True)
    return empty_hub


CONFIG = "config.json"


def source(manifest: Manifest, token: str = "") -> sources.HubSource:
    return sources.HubSource(url=hub.resolve_url(manifest), token=token)


def test_a_manifest_has_every_file_at_the_commit_with_its_hash(server: HubServer) -> None:
    manifest = hub.resolve_manifest(NAME)
    assert manifest.commit == server.repositories[NAME].commit
    assert {file.path: file.size for file in manifest.files} == {
        path: len(body) for path, body in files().items()
    }
    kinds = {file.path: file.hash.split(":")[0] for file in manifest.files}
    assert kinds["config.json"] == "git"
    assert kinds["model-00001-of-00003.safetensors"] == "sha256"


def test_a_pinned_commit_is_asked_for_once(server: HubServer) -> None:
    commit = server.repositories[NAME].commit
    first = hub.resolve_manifest(NAME, commit)
    asked = len(server.requests)
    assert hub.resolve_manifest(NAME, commit) == first
    assert len(server.requests) == asked


def test_a_branch_is_resolved_again_and_offline_keeps_its_last_commit(server: HubServer) -> None:
    old = hub.resolve_manifest(NAME)
    server.add(NAME, files(300_000))
    assert hub.resolve_manifest(NAME, offline=True) == old
    assert hub.resolve_manifest(NAME).commit == server.repositories[NAME].commit != old.commit


def test_offline_never_touches_the_network(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HubError, match="is not cached, and weights_offline is set"):
        hub.resolve_manifest(NAME, offline=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="is not cached, and HF_HUB_OFFLINE is set"):
        hub.resolve_manifest(NAME)
    assert server.requests == []


@pytest.mark.parametrize(
    ("name", "token", "message"),
    [
        ("meta/gated", None, "is gated, and there is no token"),
        ("meta/gated", "hf_stranger", "is gated, and the owner of this token has no access"),
        ("meta/gated", "hf_scoped", "this token cannot read meta/gated: Please enable access"),
        ("meta/gated", "hf_nonsense", "does not accept this token"),
        ("me/private", None, "model me/private not found on the Hub"),
        ("me/private", "hf_stranger", "model me/private not found on the Hub"),
        ("no/such", "hf_reader", "model no/such not found on the Hub"),
    ],
)
def test_refusals_are_distinguished(
    server: HubServer, name: str, token: str | None, message: str
) -> None:
    with pytest.raises(HubError, match=message) as caught:
        hub.check_access(source(hub.resolve_manifest(name, token=token), token or ""), CONFIG)
    assert caught.value.hint
    assert token is None or token not in str(caught.value)


def test_a_token_with_access_is_accepted(server: HubServer) -> None:
    for name in ("meta/gated", "me/private", NAME):
        hub.check_access(source(hub.resolve_manifest(name, token=READER), READER), CONFIG)


def test_an_unknown_revision_is_distinguished(server: HubServer) -> None:
    with pytest.raises(HubError, match="revision not found in"):
        hub.resolve_manifest(NAME, "v2")


def test_a_busy_hub_is_asked_again(server: HubServer) -> None:
    server.troubles += [Trouble(status=503), Trouble(status=429)]
    assert hub.resolve_manifest(NAME).files


def test_the_end_of_a_rate_limit_is_waited_for(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("sparkfleet.weights.hub.time", SimpleNamespace(sleep=waited.append))
    server.troubles += [Trouble(status=429, limit_ends=55), Trouble(status=429, retry_after=7)]
    assert hub.resolve_manifest(NAME).files
    assert waited == [55, 7]


def test_a_rate_limit_that_lasts_too_long_is_reported_with_its_end(server: HubServer) -> None:
    server.troubles += [Trouble(status=429, limit_ends=250)]
    with pytest.raises(HubError, match="answered 429") as caught:
        hub.resolve_manifest(NAME)
    assert caught.value.hint is not None
    assert "try again in 250 s; the limit is higher with a token" in caught.value.hint


def test_without_network_an_earlier_commit_is_suggested(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.resolve_manifest(NAME)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match="cannot reach the Hub") as caught:
        hub.resolve_manifest(NAME)
    assert "weights_offline=true" in (caught.value.hint or "")
    assert hub.resolve_manifest(NAME, offline=True).files


def test_a_hub_that_stays_down_is_an_error_with_its_address(server: HubServer) -> None:
    server.troubles += [Trouble(status=503)] * 9
    with pytest.raises(HubError, match="answered 503"):
        hub.resolve_manifest(NAME)


def test_no_network_is_an_error_that_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match="cannot reach the Hub") as caught:
        hub.resolve_manifest(NAME)
    assert "weights_source" in (caught.value.hint or "")


def test_a_file_outside_the_model_is_refused(server: HubServer) -> None:
    server.add("evil/model", {"../../.ssh/authorized_keys": b"x"})
    with pytest.raises(HubError, match="unexpected file name of evil/model from http"):
        hub.resolve_manifest("evil/model")


def test_patterns_choose_files(server: HubServer) -> None:
    manifest = hub.resolve_manifest(NAME)
    assert {file.path for file in hub.select_files(manifest, ignore=["*.safetensors"]).files} == {
        path for path in files() if not path.endswith(".safetensors")
    }
    assert [file.path for file in hub.select_files(manifest, allow=["assistant/*"]).files] == [
        "assistant/config.json"
    ]


def test_patterns_that_match_nothing_are_an_error(server: HubServer) -> None:
    with pytest.raises(HubError, match=r"has no file like \*\.gguf"):
        hub.select_files(hub.resolve_manifest(NAME), allow=["*.gguf"])


def test_one_host_downloads_and_the_others_get_it_from_there(
    server: HubServer, tmp_path: Path
) -> None:
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02", "spark-03"])
    manifest = hub.resolve_manifest(NAME)
    spark.stage(manifest, source(manifest))
    assert spark.complete(manifest)
    assert server.sent == manifest.size


def test_hosts_that_share_nothing_download_each_for_itself(
    server: HubServer, tmp_path: Path
) -> None:
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    manifest = hub.resolve_manifest(NAME)
    delivery.deliver_model(
        spark.links, spark.plan(manifest), share_no_address, source=source(manifest)
    )
    assert spark.complete(manifest)
    assert server.sent == 2 * manifest.size


def test_cuts_and_refusals_on_the_way_cost_no_byte_twice(server: HubServer, tmp_path: Path) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    server.troubles += [
        Trouble(cut=60_001),
        Trouble(status=503),
        Trouble(status=429, retry_after=1),
        Trouble(cut=10),
    ]
    start = time.monotonic()
    spark.stage(manifest, source(manifest))
    assert spark.complete(manifest)
    assert time.monotonic() - start > 1
    assert server.sent == manifest.size


def test_a_token_goes_to_the_hub_and_not_to_the_cdn(server: HubServer, tmp_path: Path) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest("meta/gated", token=READER)
    spark.stage(manifest, source(manifest, "hf_reader"))
    assert spark.complete(manifest)


def test_a_token_is_in_no_argument_environment_or_file(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")  # else programs run in forks, which have one command line
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest("meta/gated", token=READER)
    server.rate = 400_000
    found: set[str] = set()

    def look(_: TransferProgress) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    text = (process / name).read_bytes()
                except OSError:
                    continue
                found.add("program" if b"exec(compile(" in text else "other")
                assert b"hf_reader" not in text

    delivery.deliver_model(
        spark.links,
        spark.plan(manifest),
        lambda _one, _two: LOOPBACK,
        source=source(manifest, "hf_reader"),
        on_progress=look,
    )
    assert "program" in found
    held = [path for path in spark.folder.rglob("*") if path.is_file()]
    assert not [path for path in held if b"hf_reader" in path.read_bytes()]


def test_a_refusal_during_the_download_says_what_the_hub_said(
    server: HubServer, tmp_path: Path
) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest("meta/gated", token=READER)
    with pytest.raises(CommandError, match=r"refuses .*401 Access to model meta/gated"):
        spark.stage(manifest, source(manifest))


CLIENT = """
import sys, huggingface_hub
print(huggingface_hub.snapshot_download(sys.argv[1], **{sys.argv[2]: sys.argv[3]}))
"""


def client(endpoint: str, *words: str, **env: str) -> str:
    """Run the true client's `snapshot_download` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, NAME, *words],
        env={**os.environ, "HF_ENDPOINT": endpoint, **env},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_real_client_finds_staged_files_without_the_network(
    server: HubServer, tmp_path: Path
) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    spark.stage(manifest, source(manifest))
    root = spark.root("spark-01")
    found = client("http://127.0.0.1:9", "cache_dir", str(root / "hub"), HF_HUB_OFFLINE="1")
    assert found == str(root / layout.locate_served_folder(manifest))


@pytest.mark.parametrize("place", [("cache_dir", "hub"), ("local_dir", "gemma4")])
def test_files_downloaded_by_the_real_client_are_not_sent_again(
    server: HubServer, tmp_path: Path, place: tuple[str, str]
) -> None:
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    option, folder = place
    client(server.url, option, str(spark.root("spark-01") / folder))
    assert spark.stage(manifest).landed["spark-01"].bytes == 0
    assert spark.complete(manifest)


def test_the_same_bytes_under_two_names_travel_once(server: HubServer, tmp_path: Path) -> None:
    server.add(NAME, {"a/config.json": b"{}", "b/config.json": b"{}", "c/config.json": b"{}"})
    spark, manifest = one(tmp_path / "hosts"), hub.resolve_manifest(NAME)
    spark.stage(manifest, source(manifest))
    assert spark.complete(manifest)
    assert server.sent == 2
