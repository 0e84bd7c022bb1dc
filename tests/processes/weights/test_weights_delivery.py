"""Many hosts at once: a chain that overlaps, counts its bytes, and leaves memory as it was."""

from __future__ import annotations

import mmap
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.errors import CommandError, UsageError
from sparkfleet.weights import model_store
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.transfer import delivery
from sparkfleet.weights.transfer.progress import TransferProgress
from sparkfleet.weights.transfer.routes import Ends, share_no_address
from sparkfleet.weights.transfer.sources import FolderSource, HubSource
from tests.doubles.hub_server import HubServer
from tests.weights import (
    COMMIT,
    LOOPBACK,
    Sparks,
    UserLink,
    bundle,
    files,
    on_a_disk,
    one,
    resident,
    write,
)

pytestmark = pytest.mark.usefixtures("isolated")


def test_of_eight_hosts_none_sends_more_than_one_copy(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", [f"spark-{n:02}" for n in range(1, 9)])
    report = spark.stage(manifest, source)
    assert spark.complete(manifest)
    assert max(report.sent(name) for name in spark.names) == manifest.size
    assert {name: landed.bytes for name, landed in report.landed.items()} == dict.fromkeys(
        spark.names, manifest.size
    )


def test_a_host_that_joins_late_gets_files_from_a_host_and_not_from_outside(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    one(tmp_path / "hosts").stage(manifest, source)
    spark = Sparks(tmp_path / "hosts", ["spark-02", "spark-01"])
    report = spark.stage(manifest)
    assert report.sent("spark-01") == manifest.size
    assert spark.complete(manifest)


def test_without_a_shared_address_each_host_is_sent_its_own_copy(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    report = delivery.deliver_model(
        spark.links,
        spark.plan(manifest),
        share_no_address,
        source=FolderSource(folder=source),
    )
    assert report.carried == ()
    assert spark.complete(manifest)


def test_progress_of_each_host_ends_at_its_bytes(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    result: dict[str, TransferProgress] = {}
    delivery.deliver_model(
        spark.links,
        spark.plan(manifest),
        lambda _one, _two: LOOPBACK,
        source=FolderSource(folder=source),
        on_progress=lambda now: result.update({now.host: now}),
    )
    size, files = manifest.size, len(manifest.files)
    assert result == {
        name: TransferProgress(host=name, done=size, size=size, proven=files, files=files)
        for name in spark.names
    }


def test_a_leg_that_cannot_connect_names_both_ends(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    one(tmp_path / "hosts").stage(manifest, source)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    gone = Ends(sender="203.0.113.7", receiver="203.0.113.8")
    with pytest.raises(CommandError, match=r"203\.0\.113\.7") as caught:
        delivery.deliver_model(spark.links, spark.plan(manifest), lambda _one, _two: gone)
    assert caught.value.host == "spark-01"


def _receivers(root: Path) -> list[int]:
    """Return the processes that write below `root`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            held = [str(file.readlink()) for file in (process / "fd").iterdir()]
            if any(name.startswith(f"{root}/") and name.endswith(".incomplete") for name in held):
                found.append(int(process.name))
    return found


def test_a_host_that_dies_ends_the_copy_and_is_the_one_that_is_named(tmp_path: Path) -> None:
    with HubServer(rate=800_000) as server:
        server.add("org/gemma", files(800_000))
        repository = server.repositories["org/gemma"]
        manifest = Manifest(
            name="org/gemma",
            commit=repository.commit,
            files=tuple(
                ModelFile(
                    path=entry.path,
                    size=len(entry.body),
                    sha256=entry.etag if entry.large else None,
                    git_sha1=None if entry.large else entry.etag,
                )
                for entry in repository.entries.values()
            ),
        )
        url = f"{server.url}/org/gemma/resolve/{repository.commit}/"
        source = HubSource(url=url)
        spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02", "spark-03"])

        def kill(now: TransferProgress) -> None:
            if now.host == "spark-03" and now.done:
                for process in _receivers(spark.root("spark-02")):
                    os.kill(process, 9)

        with pytest.raises(CommandError) as caught:
            delivery.deliver_model(
                spark.links,
                spark.plan(manifest),
                lambda _one, _two: LOOPBACK,
                source=source,
                on_progress=kill,
            )
        assert caught.value.host == "spark-02"
        server.rate = None
        spark.stage(manifest, source)
        assert spark.complete(manifest)


def test_after_staging_the_copied_files_are_out_of_memory(tmp_path: Path) -> None:
    if not on_a_disk(tmp_path):
        pytest.skip("a file on tmpfs is always in memory")
    source, manifest = bundle(tmp_path, size=8_000_000)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    spark.stage(manifest, source)
    sent, got = (sum(map(resident, spark.root(n).rglob("*.safetensors"))) for n in spark.names)
    assert got == 0
    # Where both ends are one kernel, it may still hold some sent pages for its loopback.
    assert sent < manifest.size / mmap.PAGESIZE / 4
    write(tmp_path, {"probe": b"x" * 1_000_000})
    assert resident(tmp_path / "probe") > 200


def test_models_are_listed_with_their_sizes(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    spark.stage(replace(manifest, name="org/gemma", commit=COMMIT))
    write(spark.root("spark-01") / "mine", {"config.json": b"{}"})
    root = str(spark.root("spark-01"))
    found = {
        model.name: model for model in model_store.list_stored_models(spark.links["spark-01"], root)
    }
    assert set(found) == {"gemma4-coder", "org/gemma", "mine"}
    assert found["gemma4-coder"].bytes == manifest.size
    assert found["org/gemma"].commits == (COMMIT,)
    assert [name for name, model in found.items() if not model.staged] == ["mine"]


def test_pruning_removes_only_what_was_staged(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    link, root = spark.links["spark-01"], spark.root("spark-01")
    write(root / "gemma4-coder", {"notes.txt": b"of the user"})
    (model,) = model_store.list_stored_models(link, str(root))
    removed = model_store.remove_stored_model(link, str(root), model)
    assert removed.files == len(manifest.files)
    assert removed.freed == manifest.size
    assert removed.left == ("gemma4-coder/notes.txt",)
    assert [path.name for path in (root / "gemma4-coder").iterdir()] == ["notes.txt"]


def test_a_pruned_hub_model_leaves_no_folder_and_no_broken_link(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    spark.stage(replace(manifest, name="org/gemma", commit=COMMIT), source)
    link, root = spark.links["spark-01"], spark.root("spark-01")
    (model,) = model_store.list_stored_models(link, str(root))
    model_store.remove_stored_model(link, str(root), model)
    assert list((root / "hub").iterdir()) == []
    assert model_store.list_stored_models(link, str(root)) == ()


def test_a_model_that_was_not_staged_is_not_pruned(tmp_path: Path) -> None:
    spark = one(tmp_path / "hosts")
    root = write(spark.root("spark-01"), {"mine/config.json": b"{}"})
    (model,) = model_store.list_stored_models(spark.links["spark-01"], str(root))
    with pytest.raises(UsageError, match="was not staged by sparkfleet"):
        model_store.remove_stored_model(spark.links["spark-01"], str(root), model)
    assert (root / "mine" / "config.json").exists()


@pytest.mark.skipif(shutil.which("python3.8") is None, reason="Python 3.8 is not here")
def test_the_programs_run_on_the_oldest_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = write(tmp_path / "tools", {})
    tools.mkdir()
    (tools / "python3").symlink_to(str(shutil.which("python3.8")))
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    for name in spark.names:
        spark.links[name] = UserLink(name, PATH=f"{tools}:{os.environ['PATH']}")
    spark.stage(replace(manifest, name="org/gemma", commit=COMMIT), source)
    assert spark.complete(replace(manifest, name="org/gemma", commit=COMMIT))


def test_a_host_with_two_rails_comes_from_the_address_that_is_expected(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    one(tmp_path / "hosts").stage(manifest, source)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    ends = Ends(sender="127.0.0.1", receiver="127.0.0.2")
    delivery.deliver_model(spark.links, spark.plan(manifest), lambda _one, _two: ends)
    assert spark.complete(manifest)
