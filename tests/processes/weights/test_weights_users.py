"""Folders of another user, or that can only be read, are judged and named, and stop no check."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.model import Host, Value
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights import layout, model_store
from sparkfleet.weights.inspection import inspect_weights
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.transfer import delivery, stage
from sparkfleet.weights.transfer.routes import share_no_address
from sparkfleet.weights.transfer.sources import FolderSource
from tests.weights import (
    COMMIT,
    Sparks,
    bundle,
    checks,
    on_a_disk,
    one,
    resident,
)

pytestmark = [
    pytest.mark.usefixtures("isolated"),
    pytest.mark.skipif(os.getuid() != 0, reason="runs programs as another user"),
]
BOB = 12345


class BobsLink(LocalConnection):
    """A host on which we have an account that owns nothing of what root staged."""

    def _start(self, command: Command) -> Channel:
        ids = f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups"
        env = {**command.env, "PATH": os.defpath, "HOME": "/nowhere", "XDG_CACHE_HOME": self.cache}
        return super()._start(replace(command, argv=("setpriv", *ids, *command.argv), env=env))

    cache = "/nowhere"


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[tuple[Sparks, Manifest]]:
    """Stage a model as root, in a folder that everybody may read."""
    source, manifest = bundle(tmp_path)
    manifest = replace(manifest, name="org/gemma", commit=COMMIT)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        staged = one(Path(name))
        staged.stage(manifest, source)
        yield staged, manifest


def bob() -> BobsLink:
    return BobsLink(Host(name="spark-01"))


def give(root: Path, user: int = BOB) -> None:
    subprocess.run(["chown", "-hR", f"{user}:{user}", root], check=True)


def test_files_of_another_user_are_verified_without_their_ledger(
    spark: tuple[Sparks, Manifest],
) -> None:
    staged, manifest = spark
    found = stage.verify_weights(bob(), manifest, str(staged.root("spark-01")))
    assert found[-1].check == "weights.complete"
    owned = next(verdict for verdict in found if verdict.check == "weights.owner")
    assert owned.host == "spark-01"
    (model,) = model_store.list_stored_models(bob(), str(staged.root("spark-01")))
    assert (model.name, model.staged) == ("org/gemma", False)


@pytest.mark.parametrize("closed", ["blobs", f"snapshots/{COMMIT}", ""])
def test_an_unreadable_folder_of_a_container_is_named(
    spark: tuple[Sparks, Manifest], closed: str
) -> None:
    staged, manifest = spark
    root = staged.root("spark-01")
    give(root)
    folder = root / layout.locate_model_folder(manifest) / closed
    os.chown(folder, 0, 0)
    folder.chmod(0o700)
    found = stage.verify_weights(bob(), manifest, str(root))
    assert set(checks(found)) - {"weights.revision"} == {"weights.unreadable"}
    assert found[0].seen == f"{folder} of user 0 with mode 700"
    assert any(v.check == "weights.owner" and v.subject == str(folder) for v in found)
    plan = stage.plan_staging(manifest, {"spark-01": inspect_weights(bob(), manifest, str(root))})[
        "spark-01"
    ]
    assert "weights.locked" in checks(plan.verdicts)
    assert [model.name for model in model_store.list_stored_models(bob(), str(root))] == [
        "org/gemma"
    ]


@pytest.mark.parametrize(
    "path",
    ["hub", ".sparkfleet", ".sparkfleet/manifests", ".sparkfleet/lock", ".sparkfleet/ledger.jsonl"],
)
def test_an_obstacle_of_another_user_is_named_before_a_byte_moves(
    spark: tuple[Sparks, Manifest], path: str
) -> None:
    staged, manifest = spark
    root = staged.root("spark-01")
    shutil.rmtree(root / "hub/models--org--gemma")
    give(root)
    os.chown(root / path, 0, 0)
    plan = stage.plan_staging(manifest, {"spark-01": inspect_weights(bob(), manifest, str(root))})[
        "spark-01"
    ]
    (verdict,) = (verdict for verdict in plan.verdicts if verdict.refuses)
    assert (verdict.check, verdict.subject) == ("weights.locked", str(root / path))


def test_an_unfinished_download_of_a_container_does_not_matter(
    spark: tuple[Sparks, Manifest], tmp_path: Path
) -> None:
    staged, manifest = spark
    root, source = staged.root("spark-01"), tmp_path / "gemma4-coder"
    blob = root / layout.list_file_locations(manifest)[0].blob
    blob.unlink()
    give(root)
    blob.with_name(blob.name + ".incomplete").write_bytes(b"{")
    link = bob()
    plans = stage.plan_staging(manifest, {"spark-01": inspect_weights(link, manifest, str(root))})
    assert plans["spark-01"].sends[0].offset == 0
    delivery.deliver_model(
        {"spark-01": link}, plans, share_no_address, source=FolderSource(folder=source)
    )
    assert stage.verify_weights(link, manifest, str(root))[-1].check == "weights.complete"


def test_a_folder_that_cannot_be_entered_does_not_stop_the_search(
    spark: tuple[Sparks, Manifest],
) -> None:
    staged, manifest = spark
    half = staged.root("spark-01") / "other"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"x")
    half.chmod(0o744)
    other = replace(manifest, name="org/other")
    found = inspect_weights(bob(), other, str(staged.root("spark-01")))
    assert all(finding.have for finding in found.findings)


def test_a_weights_folder_in_the_home_of_another_user_is_a_verdict(
    spark: tuple[Sparks, Manifest],
) -> None:
    staged, manifest = spark
    home = staged.folder / "alice"
    home.mkdir(mode=0o700)
    plans = stage.plan_staging(
        manifest, {"spark-01": inspect_weights(bob(), manifest, str(home / "vllm"))}
    )
    (verdict,) = (v for v in plans["spark-01"].verdicts if v.check == "weights.root")
    assert verdict.seen == f"{home} of root"


def test_an_unknown_home_folder_is_reported(spark: tuple[Sparks, Manifest]) -> None:
    with pytest.raises(CommandError, match="~nobody-at-all/vllm: no such user"):
        inspect_weights(bob(), spark[1], "~nobody-at-all/vllm")
    with pytest.raises(CommandError, match="~nobody-at-all/vllm: no such user"):
        model_store.list_stored_models(bob(), "~nobody-at-all/vllm")


def test_a_link_to_a_disk_that_is_not_mounted_is_named(spark: tuple[Sparks, Manifest]) -> None:
    staged, manifest = spark
    root = staged.folder / "spark-02"
    root.symlink_to("/mnt/absent/vllm")
    link = LocalConnection(Host(name="spark-01"))
    plan = stage.plan_staging(manifest, {"spark-01": inspect_weights(link, manifest, str(root))})[
        "spark-01"
    ]
    (verdict,) = (v for v in plan.verdicts if v.check == "weights.root")
    assert "a link to /mnt/absent/vllm" in verdict.seen


@pytest.fixture
def read_only(spark: tuple[Sparks, Manifest]) -> Iterator[Path]:
    staged, _ = spark
    root = staged.root("spark-01")
    shutil.rmtree(root / ".sparkfleet")
    subprocess.run(["mount", "--bind", root, root], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
    yield root
    subprocess.run(["umount", root], check=True)


def test_a_share_that_can_only_be_read_is_proven_and_not_read_twice(
    spark: tuple[Sparks, Manifest], read_only: Path
) -> None:
    staged, manifest = spark
    seen = [staged.inspect(manifest)["spark-01"] for _ in range(2)]
    assert [one.hashed for one in seen] == [manifest.size, 0]
    assert not seen[1].findings
    assert stage.verify_weights(bob(), manifest, str(read_only))[-1].check == "weights.complete"


def test_a_disk_that_was_mounted_read_only_is_called_that(
    spark: tuple[Sparks, Manifest], read_only: Path
) -> None:
    other = replace(spark[1], name="org/other")
    (verdict,) = (v for v in spark[0].plan(other)["spark-01"].verdicts if v.check == "weights.root")
    assert verdict.seen == f"{read_only}, mounted read-only of root"


def test_the_filesystem_of_a_disk_with_an_odd_name_is_reported(
    spark: tuple[Sparks, Manifest],
) -> None:
    staged, manifest = spark
    disk = staged.folder / "Új kötet 1"
    disk.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", disk], check=True)
    try:
        found = inspect_weights(
            LocalConnection(Host(name="spark-01")), manifest, str(disk / "vllm")
        )
    finally:
        subprocess.run(["umount", disk], check=True)
    assert found.storage.filesystem == "ramfs"


def test_files_of_another_disk_are_copied_and_leave_the_page_cache(
    spark: tuple[Sparks, Manifest], tmp_path: Path
) -> None:
    staged, manifest = spark
    root = staged.folder / "spark-02"
    disk = root / "old"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)
    try:
        shutil.copytree(tmp_path / "gemma4-coder", disk / "gemma")
        second = Sparks(staged.folder, ["spark-02"])
        assert second.stage(manifest).landed["spark-02"].bytes == 0
        held = {
            place.file.size: resident(root / place.blob)
            for place in layout.list_file_locations(manifest)
        }
        assert not on_a_disk(root) or held[max(held)] == 0
        assert second.complete(manifest)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_files_of_root_in_the_cache_are_copied_and_not_linked(
    spark: tuple[Sparks, Manifest],
) -> None:
    cache, manifest = spark[0].root("spark-01"), spark[1]
    caches = {"weights_caches": Value(data=[str(cache)])}
    link = BobsLink(Host(name="spark-01", vars=caches))
    with tempfile.TemporaryDirectory() as name:
        give(Path(name))
        plan = stage.plan_staging(
            manifest, {"spark-01": inspect_weights(link, manifest, f"{name}/vllm")}
        )
        assert plan["spark-01"].size == 0
        assert plan["spark-01"].space.sizes == tuple(plan["spark-01"].copies.values())
        delivery.deliver_model({"spark-01": link}, plan, share_no_address)
        assert stage.verify_weights(link, manifest, f"{name}/vllm")[-1].check == "weights.complete"
        largest = max(layout.list_file_locations(manifest), key=lambda place: place.file.size)
        assert Path(name, "vllm", largest.blob).stat().st_uid == BOB


def test_a_verified_file_that_became_unreadable_is_sent_again(
    spark: tuple[Sparks, Manifest], tmp_path: Path
) -> None:
    staged, manifest = spark
    root, link = staged.root("spark-01"), bob()
    give(staged.folder)
    assert stage.verify_weights(link, manifest, str(root))[-1].check == "weights.complete"
    smallest = min(layout.list_file_locations(manifest), key=lambda place: place.file.size)
    (root / smallest.blob).chmod(0)
    seen = inspect_weights(link, manifest, str(root))
    assert {found.state for found in seen.findings} == {"unreadable"}
    source = FolderSource(folder=tmp_path / "gemma4-coder")
    plan = stage.plan_staging(manifest, {"spark-01": seen})
    assert [send.location.blob for send in plan["spark-01"].sends] == [smallest.blob]
    delivery.deliver_model({"spark-01": link}, plan, share_no_address, source=source)
    assert stage.verify_weights(link, manifest, str(root))[-1].check == "weights.complete"
