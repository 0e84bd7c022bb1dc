"""Files that a host lacks are found, named and repaired; nothing else is touched or sent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from filelock import FileLock

from sparkfleet.errors import CommandError, GateError
from sparkfleet.model import Severity
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest, build_file_manifest, build_folder_manifest
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.stage import Strategy
from tests.variations import keep_some
from tests.weights import COMMIT, Sparks, bundle, checks, files, one, write

pytestmark = pytest.mark.usefixtures("isolated")

SECOND = "model-00002-of-00003.safetensors"


@dataclass(slots=True)
class Scene:
    """A source, its manifest, and a host that holds all of it."""

    source: Path
    manifest: Manifest
    spark: Sparks

    @property
    def folder(self) -> Path:
        return self.spark.root("spark-01") / layout.locate_served_folder(self.manifest)

    @property
    def second(self) -> Path:
        return self.folder / SECOND


@pytest.fixture(params=["bundle", "hub"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    source, manifest = bundle(tmp_path)
    if request.param == "hub":
        manifest = replace(manifest, name="org/gemma", commit=COMMIT)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    return Scene(source, manifest, spark)


def test_an_empty_host_gets_all_of_it_proven(scene: Scene) -> None:
    assert scene.spark.complete(scene.manifest)


def test_a_second_run_has_nothing_to_do_and_reads_no_weights(scene: Scene) -> None:
    seen = scene.spark.inspect(scene.manifest)["spark-01"]
    plan = stage.plan_staging(scene.manifest, {"spark-01": seen})["spark-01"]
    assert (plan.changes, plan.size, plan.verdicts, seen.hashed) == (False, 0, (), 0)


def test_full_reads_every_byte_again(scene: Scene) -> None:
    seen = scene.spark.inspect(scene.manifest, full=True)["spark-01"]
    assert seen.hashed == scene.manifest.size


def _flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(body))
    os.utime(path, ns=(1, 1))


def _truncate(path: Path) -> None:
    os.truncate(path, 1000)


def _delete(path: Path) -> None:
    path.resolve().unlink()
    path.unlink(missing_ok=True)


def _dangle(path: Path) -> None:
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    path.symlink_to("../nowhere")


DAMAGES = [
    (_flip, "weights.hash"),
    (_truncate, "weights.size"),
    (_delete, "weights.missing"),
    (_dangle, "weights.dangling"),
]


@pytest.mark.parametrize(("damage", "check"), keep_some(DAMAGES, 2))
def test_each_damage_has_its_verdict_with_host_and_path(
    scene: Scene, damage: Callable[[Path], None], check: str
) -> None:
    damage(scene.second)
    (verdict, *_) = [v for v in scene.spark.verify(scene.manifest)["spark-01"] if v.refuses]
    assert (verdict.check, verdict.host, verdict.subject) == (check, "spark-01", str(scene.second))


@pytest.mark.parametrize(("damage", "check"), keep_some(DAMAGES, 2))
def test_stage_sends_again_what_is_damaged_and_only_that(
    scene: Scene, damage: Callable[[Path], None], check: str
) -> None:
    damage(scene.second)
    report = scene.spark.stage(scene.manifest, scene.source)
    assert report.landed["spark-01"].bytes == (scene.source / SECOND).stat().st_size
    assert scene.spark.complete(scene.manifest)


def test_a_link_out_of_the_weights_folder_is_not_a_copy(scene: Scene, tmp_path: Path) -> None:
    away = tmp_path / "elsewhere"
    away.mkdir()
    shutil.move(scene.second.resolve(), away / SECOND)
    scene.second.unlink(missing_ok=True)
    scene.second.symlink_to(away / SECOND)
    assert checks(scene.spark.verify(scene.manifest)["spark-01"])[0] == "weights.outside"
    scene.spark.stage(scene.manifest, scene.source)
    assert scene.spark.complete(scene.manifest)


def test_damage_that_keeps_size_and_time_is_found_by_full_only(scene: Scene) -> None:
    found = scene.second.stat()
    _flip(scene.second)
    os.utime(scene.second, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert not checks(scene.spark.verify(scene.manifest)["spark-01"])
    assert checks(scene.spark.verify(scene.manifest, full=True)["spark-01"]) == ["weights.hash"]


def test_an_interrupted_file_goes_on_at_its_byte(scene: Scene) -> None:
    place = next(p for p in layout.list_file_locations(scene.manifest) if p.file.path == SECOND)
    _delete(scene.second)
    partial = scene.spark.root("spark-01") / f"{place.blob}.incomplete"
    partial.write_bytes((scene.source / SECOND).read_bytes()[:150_001])
    report = scene.spark.stage(scene.manifest, scene.source)
    assert report.landed["spark-01"].bytes == place.file.size - 150_001
    assert scene.spark.complete(scene.manifest)


def test_a_partial_file_with_wrong_bytes_is_never_put_in_place(scene: Scene) -> None:
    place = next(p for p in layout.list_file_locations(scene.manifest) if p.file.path == SECOND)
    _delete(scene.second)
    partial = scene.spark.root("spark-01") / f"{place.blob}.incomplete"
    partial.write_bytes(b"\0" * 150_001)
    with pytest.raises(GateError, match="was not put in place"):
        scene.spark.stage(scene.manifest, scene.source)
    assert not scene.second.exists()
    assert not partial.exists()
    scene.spark.stage(scene.manifest, scene.source)
    assert scene.spark.complete(scene.manifest)


def test_a_download_that_never_ended_is_named(scene: Scene) -> None:
    stray = scene.folder / "model-00009.safetensors.incomplete"
    stray.write_bytes(b"x")
    found = scene.spark.verify(scene.manifest)["spark-01"]
    assert [(v.check, v.subject) for v in found if v.severity is Severity.WARNING] == [
        ("weights.stray", str(stray))
    ]


def test_weights_of_another_model_in_the_folder_are_named(scene: Scene) -> None:
    other = write(scene.folder, {"other.safetensors": b"x"}) / "other.safetensors"
    found = scene.spark.verify(scene.manifest)["spark-01"]
    assert [(v.check, v.subject) for v in found if v.severity is Severity.WARNING] == [
        ("weights.extra", str(other))
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_named(scene: Scene) -> None:
    os.chown(scene.second.resolve(), 65534, 65534)
    warnings = [v for v in scene.spark.verify(scene.manifest)["spark-01"] if not v.refuses]
    assert (warnings[0].check, warnings[0].subject) == (
        "weights.owner",
        str(scene.second.resolve()),
    )


def test_a_hard_linked_copy_in_another_layout_is_used_and_not_sent(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    shutil.copytree(source, spark.root("spark-01") / "downloads" / "coder")
    hub = replace(manifest, name="org/gemma", commit=COMMIT)
    assert spark.stage(hub).landed["spark-01"].bytes == 0
    assert spark.complete(hub)


def test_the_hub_wide_store_of_new_clients_counts_where_its_links_lead(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    hub = replace(manifest, name="org/gemma", commit=COMMIT)
    spark = one(tmp_path / "hosts")
    root = spark.root("spark-01")
    for number, place in enumerate(layout.list_file_locations(hub)):
        store = root / f"hub/blobs/{number:02}/{number:064}"
        for path in (store, root / place.blob, root / place.path):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / place.file.path, store)
        if not (root / place.blob).is_symlink():
            (root / place.blob).symlink_to(os.path.relpath(store, (root / place.blob).parent))
        (root / place.path).symlink_to(
            os.path.relpath(root / place.blob, (root / place.path).parent)
        )
    assert spark.plan(hub)["spark-01"].size == 0
    assert spark.stage(hub).landed["spark-01"].bytes == 0
    assert spark.complete(hub)


def test_a_download_of_the_hubs_client_that_runs_is_waited_for(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    hub = replace(manifest, name="org/gemma", commit=COMMIT)
    spark = one(tmp_path / "hosts")
    blob = Path(layout.list_file_locations(hub)[0].blob).name
    lock = spark.root("spark-01") / f"hub/.locks/models--org--gemma/{blob}.lock"
    lock.parent.mkdir(parents=True)
    with FileLock(lock), pytest.raises(CommandError, match=f"hf download is writing .*{blob}"):
        spark.stage(hub, source)
    spark.stage(hub, source)
    assert spark.complete(hub)


def test_another_revision_is_named_and_only_the_difference_is_sent(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    old = replace(manifest, name="org/gemma", commit="0" * 40)
    spark = one(tmp_path / "hosts")
    spark.stage(old, source)
    write(source, {"config.json": b'{"architectures": ["Other"]}'})
    new = replace(build_folder_manifest(source), name="org/gemma", commit=COMMIT)
    verdicts = spark.verify(new)["spark-01"]
    assert ("0" * 40) in next(v.seen for v in verdicts if v.check == "weights.revision")
    assert spark.stage(new, source).landed["spark-01"].bytes == len(b'{"architectures": ["Other"]}')
    assert spark.complete(new)
    assert spark.complete(replace(old, revision="0" * 40))


def test_a_loose_file_is_directly_in_the_weights_folder(tmp_path: Path) -> None:
    plugin = write(tmp_path, {"gemma4_patched.py": b"pass\n"}) / "gemma4_patched.py"
    spark, manifest = one(tmp_path / "hosts"), build_file_manifest(plugin)
    spark.stage(manifest, tmp_path)
    assert (spark.root("spark-01") / "gemma4_patched.py").read_bytes() == b"pass\n"
    assert spark.complete(manifest)


def test_a_folder_that_cannot_be_made_is_an_error_with_its_fix(tmp_path: Path) -> None:
    _, manifest = bundle(tmp_path)
    spark = one(tmp_path)
    spark.root("spark-01").write_bytes(b"a file where the folder should be")
    (verdict,) = [v for v in spark.plan(manifest)["spark-01"].verdicts if v.refuses]
    assert verdict.check == "weights.root"
    assert "chown" in verdict.fix


@pytest.mark.parametrize("strategy", [Strategy.SHARED, Strategy.PRESENT])
def test_without_copying_a_missing_file_is_an_error(scene: Scene, strategy: Strategy) -> None:
    _delete(scene.second)
    plan = stage.plan_staging(scene.manifest, scene.spark.inspect(scene.manifest), strategy)[
        "spark-01"
    ]
    assert not plan.changes
    assert checks(plan.verdicts)[0] == "weights.missing"


def test_bytes_that_no_host_has_are_refused_before_anything_moves(scene: Scene) -> None:
    _delete(scene.second)
    with pytest.raises(GateError, match=SECOND):
        scene.spark.stage(scene.manifest)


def test_check_writes_nothing(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    shutil.copytree(source, spark.root("spark-01") / source.name)
    before = sorted(spark.folder.rglob("*"))
    spark.inspect(manifest, record=False)
    assert sorted(spark.folder.rglob("*")) == before


def test_the_ledger_and_its_folder_are_private(scene: Scene) -> None:
    folder = scene.spark.root("spark-01") / ".sparkfleet"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "ledger.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_partial_line_in_the_ledger_costs_one_hash_only(scene: Scene) -> None:
    ledger = scene.spark.root("spark-01") / ".sparkfleet" / "ledger.jsonl"
    lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    lost = json.loads(lines[-1])
    assert scene.spark.inspect(scene.manifest)["spark-01"].hashed == lost[1]


def test_a_source_that_shrank_while_it_was_sent_leaves_the_rest_for_the_next_run(
    tmp_path: Path,
) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    os.truncate(source / SECOND, 100_000)
    with pytest.raises(CommandError, match="too early"):
        spark.stage(manifest, source)
    write(source, files())
    spark.stage(manifest, source)
    assert spark.complete(manifest)
