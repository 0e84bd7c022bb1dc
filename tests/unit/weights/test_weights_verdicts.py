"""Limits of a host's storage are reported before a byte moves, from its facts alone."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from sparkfleet.model import Severity
from sparkfleet.weights import layout, verdicts
from sparkfleet.weights.inspection import IncompleteFile, Inspection, RequiredSpace, Storage
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.transfer import stage
from tests.weights import COMMIT, checks

GIB = 2**30
MANIFEST = Manifest(
    name="org/gemma",
    commit=COMMIT,
    files=(
        ModelFile(path="a.safetensors", size=40 * GIB, sha256="a" * 64),
        ModelFile(path="b.safetensors", size=40 * GIB, sha256="b" * 64),
    ),
)
STORAGE = Storage(
    root="/home/nvidia/vllm",
    base="/home/nvidia/vllm",
    folder=True,
    writable=True,
    owner="nvidia",
    user="nvidia",
    filesystem="ext4",
    free=500 * GIB,
    free_inodes=10**6,
)


def lacking(*letters: str, offset: int = 0) -> tuple[IncompleteFile, ...]:
    folder = f"hub/models--org--gemma/snapshots/{COMMIT}"
    return tuple(
        IncompleteFile(
            path=f"{folder}/{letter}.safetensors", state="missing", seen="no file", offset=offset
        )
        for letter in letters
    )


def refusals(
    storage: Storage, findings: tuple[IncompleteFile, ...] = lacking("a", "b")
) -> list[str]:
    inspection = Inspection(host="spark-01", storage=storage, findings=findings)
    return checks(stage.plan_staging(MANIFEST, {"spark-01": inspection})["spark-01"].verdicts)


def test_a_host_with_enough_space_has_no_refusal() -> None:
    assert refusals(STORAGE) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"free": 79 * GIB}, "weights.space"),
        ({"quota_left": 79 * GIB}, "weights.quota"),
        ({"free_inodes": 3}, "weights.inodes"),
        ({"filesystem": "vfat"}, "weights.filesystem"),
        ({"filesystem": "exfat"}, "weights.filesystem"),
        ({"writable": False}, "weights.root"),
        ({"folder": False}, "weights.root"),
        ({"locked": ("/home/nvidia/vllm/hub (root, mode 755)",)}, "weights.locked"),
    ],
)
def test_each_obstacle_has_its_verdict(change: dict[str, object], check: str) -> None:
    assert refusals(replace(STORAGE, **change)) == [check]  # type: ignore[arg-type]  # by name


def test_only_missing_bytes_need_space() -> None:
    tight = replace(STORAGE, free=41 * GIB)
    assert refusals(tight) == ["weights.space"]
    assert refusals(tight, lacking("b")) == []
    assert refusals(tight, lacking("a", "b", offset=20 * GIB)) == []


def test_a_missing_model_is_one_verdict() -> None:
    inspection = Inspection(host="spark-01", storage=STORAGE, findings=lacking("a", "b"))
    (verdict,) = verdicts.check_model_files(inspection, MANIFEST)
    assert (verdict.check, verdict.seen) == ("weights.missing", "none of them")
    assert verdict.expected == "2 files, 86 GB"


def test_each_missing_file_among_others_is_named() -> None:
    refs = replace(STORAGE, refs=layout.build_metadata_files(MANIFEST))
    for findings in (lacking("b"), lacking("a", "b", offset=1)):
        inspection = Inspection(host="spark-01", storage=refs, findings=findings)
        assert len(verdicts.check_model_files(inspection, MANIFEST)) == len(findings)


def test_a_complete_host_may_be_full_and_read_only() -> None:
    refs = layout.build_metadata_files(MANIFEST)
    full = replace(STORAGE, free=0, free_inodes=0, writable=False, refs=refs)
    assert refusals(full, ()) == []


def test_the_fix_names_root_and_user() -> None:
    inspection = Inspection(host="spark-01", storage=replace(STORAGE, writable=False))
    (verdict,) = verdicts.check_storage(inspection, RequiredSpace(sizes=(1,)))
    assert verdict.fix == "sudo mkdir -p /home/nvidia/vllm && sudo chown nvidia /home/nvidia/vllm"


@pytest.mark.parametrize(
    ("base", "fix"),
    [
        ("/mnt/nas, mounted read-only", "findmnt --target /home/nvidia/vllm"),
        ("/home/nvidia/vllm, a link to /mnt/nas", "mount the disk that it leads to"),
    ],
)
def test_the_fix_of_a_folder_is_that_of_its_fault(base: str, fix: str) -> None:
    storage = replace(STORAGE, writable=False, base=base)
    inspection = Inspection(host="spark-01", storage=storage)
    (verdict,) = verdicts.check_storage(inspection, RequiredSpace(sizes=(1,)))
    assert fix in verdict.fix
    assert "mkdir" not in verdict.fix


# sovgrid.org, "hf download lies at 22 GB": newer clients leave another file at each try.
def test_unfinished_downloads_are_removed_at_once_and_alone() -> None:
    strays = ["/home/nvidia/vllm/my model/x.incomplete", *(f"/b/{n}.incomplete" for n in range(5))]
    storage = replace(STORAGE, strays=tuple(strays))
    (verdict,) = verdicts.check_model_folder(Inspection(host="spark-01", storage=storage))
    assert shlex.split(verdict.fix.partition(": ")[2]) == ["rm", *strays]


def test_weights_in_memory_are_warned_of() -> None:
    inspection = Inspection(host="spark-01", storage=replace(STORAGE, filesystem="tmpfs"))
    assert [(v.check, v.severity) for v in verdicts.check_model_folder(inspection)] == [
        ("weights.memory", Severity.WARNING)
    ]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "ext4", "fuseblk", "overlay"])
def test_a_copy_on_a_network_filesystem_is_warned_of(kind: str) -> None:
    inspection = Inspection(host="spark-01", storage=replace(STORAGE, filesystem=kind))
    plans = {
        strategy: stage.plan_staging(MANIFEST, {"spark-01": inspection}, strategy)["spark-01"]
        for strategy in (stage.Strategy.FANOUT, stage.Strategy.SHARED)
    }
    own, shared = (
        [v for v in plan.verdicts if v.check == "weights.network"] for plan in plans.values()
    )
    assert [v.severity for v in own] == [Severity.WARNING] * (
        kind in ("nfs4", "cifs", "fuse.sshfs")
    )
    assert shared == []


def test_a_broken_source_is_an_error_that_no_copy_can_fix() -> None:
    finding = replace(lacking("a")[0], state="header", seen="40 bytes where the header says 50")
    inspection = Inspection(host="spark-01", storage=STORAGE, findings=(finding,))
    plan = stage.plan_staging(MANIFEST, {"spark-01": inspection})["spark-01"]
    assert checks(plan.verdicts) == ["weights.header"]
    assert plan.sends == ()


def test_a_complete_host_has_all_files_verified() -> None:
    inspection = Inspection(host="spark-01", storage=STORAGE, findings=())
    verdict = verdicts.make_complete_verdict(inspection, MANIFEST)
    assert (verdict.expected, verdict.seen) == ("2 files, 86 GB", "all of them, verified")
