"""Whatever breaks, no wrong byte is ever put in place, and the next run completes the model."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError, GateError, SparkfleetError
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest, dump_manifest
from sparkfleet.weights.transfer import delivery, stage
from sparkfleet.weights.transfer.routes import share_no_address
from sparkfleet.weights.transfer.sources import FolderSource
from tests.commandline import becomes
from tests.weights import COMMIT, Sparks, bundle, one

pytestmark = pytest.mark.usefixtures("isolated")


def wrong_files(spark: Sparks, manifest: Manifest, source: Path) -> list[Path]:
    """Return the files in place whose bytes are not those of the source."""
    return [
        path
        for name in spark.names
        for place in layout.list_file_locations(manifest)
        for path in (spark.root(name) / place.path, spark.root(name) / place.blob)
        if path.exists() and path.read_bytes() != (source / place.file.path).read_bytes()
    ]


def start_receiver(plan: stage.StagePlan) -> subprocess.Popen[bytes]:
    command = build_script_command(
        "weights/receiver", {"root": plan.root, "streams": [stage.build_stream_request(plan.sends)]}
    )
    pipe = subprocess.PIPE
    receiver = subprocess.Popen(command.argv, stdin=pipe, stdout=subprocess.DEVNULL)
    assert receiver.stdin is not None
    receiver.stdin.write(command.input)
    return receiver


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.thorough)])
def test_kills_leave_no_wrong_byte_in_place(tmp_path: Path, kills: int) -> None:
    source, manifest = bundle(tmp_path, size=3_000_000)
    manifest = replace(manifest, name="org/gemma", commit=COMMIT)
    spark, dice, killed = one(tmp_path / "hosts"), random.Random(38), 0
    while killed < kills:
        plan = spark.plan(manifest)["spark-01"]
        if not plan.sends:
            subprocess.run(["rm", "-r", spark.root("spark-01")], check=True)
            continue
        receiver, left = start_receiver(plan), dice.randrange(manifest.size // 8)
        assert receiver.stdin is not None
        for piece in stage.read_payload(source, plan.sends):
            receiver.stdin.write(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
        with suppress(BrokenPipeError):
            receiver.stdin.flush()
        time.sleep(dice.random() * 0.03)
        receiver.kill()
        with suppress(BrokenPipeError):
            receiver.stdin.close()
        receiver.wait()
        killed += 1
        assert wrong_files(spark, manifest, source) == []
    spark.stage(manifest, source)
    assert spark.complete(manifest)


def running(folder: Path) -> list[str]:
    """Return the on-host programs that a test with that folder has started and that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"XDG_CACHE_HOME={folder}".encode() in (process / "environ").read_bytes()
            line = (process / "cmdline").read_bytes().decode()
            if ours and "exec(compile(" in line:
                found.append(line)
    return found


CONTROL = """
import sys
from pathlib import Path
from tests.weights import Sparks
from sparkfleet.weights.manifest import parse_manifest
manifest = parse_manifest(Path(sys.argv[1]).read_text())
spark = Sparks(Path(sys.argv[2]), ["spark-01", "spark-02", "spark-03"])
print("ready", flush=True)
spark.stage(manifest, Path(sys.argv[3]))
"""


def test_killing_the_control_machine_ends_every_program_and_the_next_run_completes(
    tmp_path: Path,
) -> None:
    source, manifest = bundle(tmp_path, size=4_000_000)
    (tmp_path / "manifest.json").write_text(dump_manifest(manifest))
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02", "spark-03"])
    dice, seen = random.Random(39), 0
    for _ in range(4):
        words = (tmp_path / "manifest.json", spark.folder, source)
        control = subprocess.Popen(
            [sys.executable, "-c", CONTROL, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        assert control.stdout is not None
        control.stdout.readline()
        while not running(tmp_path) and control.poll() is None:
            time.sleep(0.01)
        seen += len(running(tmp_path))
        time.sleep(dice.random() * 0.4)
        control.kill()
        control.wait()
        control.stdout.close()
        assert wrong_files(spark, manifest, source) == []
    assert seen
    assert becomes(lambda: running(tmp_path) == []), running(tmp_path)
    spark.stage(manifest, source)
    assert spark.complete(manifest)


def test_a_flipped_byte_on_the_way_is_refused(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    path = next(
        file.path for file in manifest.files if file.path.endswith("2-of-00003.safetensors")
    )
    body = bytearray((source / path).read_bytes())
    body[5000] ^= 4
    (source / path).write_bytes(bytes(body))
    spark = one(tmp_path / "hosts")
    with pytest.raises(GateError, match=f"{path} arrived from the control machine"):
        spark.stage(manifest, source)
    assert wrong_files(spark, manifest, source) == []
    assert not list(spark.folder.rglob(f"{path}*"))


def test_a_damaged_copy_on_one_host_is_named_and_not_spread(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    one(tmp_path / "hosts").stage(manifest, source)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02", "spark-03"])
    path = next(path for path in sorted(spark.root("spark-01").rglob("*.safetensors")))
    found = path.stat()
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"rot")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))  # what the ledger cannot see
    with pytest.raises(SparkfleetError, match="arrived from spark-01"):
        spark.stage(manifest)
    assert not list(spark.root("spark-02").rglob(path.name))
    assert not list(spark.root("spark-03").rglob(path.name))


def test_two_runs_at_once_never_mix(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path, size=4_000_000)
    spark = one(tmp_path / "hosts")
    ends: list[str] = []

    def run() -> None:
        try:
            spark.stage(manifest, source)
            ends.append("done")
        except CommandError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong_files(spark, manifest, source) == []
    assert "done" in ends
    refused = [end for end in ends if end != "done"]
    assert all("another run" in end for end in refused)
    spark.stage(manifest, source)
    assert spark.complete(manifest)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    plan = spark.plan(manifest)["spark-01"]
    ledger = spark.root("spark-01") / ".sparkfleet" / "ledger.jsonl"
    ledger.unlink(missing_ok=True)
    first = start_receiver(plan)
    assert first.stdin is not None
    first.stdin.flush()
    while not ledger.exists():  # it is opened once the lock is held
        assert first.poll() is None
        time.sleep(0.01)
    with pytest.raises(CommandError, match="another run is staging weights") as caught:
        spark.stage(manifest, source)
    assert caught.value.hint is not None
    first.stdin.close()
    first.wait()
    spark.stage(manifest, source)
    assert spark.complete(manifest)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("mounts a small filesystem")
    disk = tmp_path / "hosts"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_too_little_space_is_refused_before_a_byte_moves(tmp_path: Path, small_disk: Path) -> None:
    _, manifest = bundle(tmp_path, size=500_000)
    verdicts = one(small_disk).plan(manifest)["spark-01"].verdicts
    (verdict,) = [verdict for verdict in verdicts if verdict.refuses]
    assert verdict.check == "weights.space"
    assert verdict.host == "spark-01"


def test_files_that_a_host_has_need_no_space(tmp_path: Path, small_disk: Path) -> None:
    source, manifest = bundle(tmp_path, size=250_000)
    spark = one(small_disk)
    spark.stage(manifest, source)
    next(small_disk.rglob("model-00002*")).unlink()
    assert not [v for v in spark.plan(manifest)["spark-01"].verdicts if v.refuses]


def test_a_disk_that_fills_up_on_the_way_keeps_what_arrived(
    tmp_path: Path, small_disk: Path
) -> None:
    source, manifest = bundle(tmp_path, size=300_000)
    spark = one(small_disk)
    hog = small_disk / "hog"
    plans = spark.plan(manifest)
    hog.write_bytes(b"x" * 500_000)
    with pytest.raises(CommandError, match=r"[Nn]o space|full"):
        delivery.deliver_model(
            spark.links, plans, share_no_address, source=FolderSource(folder=source)
        )
    assert wrong_files(spark, manifest, source) == []
    hog.unlink()
    assert spark.stage(manifest, source).landed["spark-01"].bytes < manifest.size
    assert spark.complete(manifest)
