"""C39: a container that ran as root left files that later syncs and locks could not touch."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.remote.channel import Channel
from tests.weights import Sparks, UserLink, bundle, checks, isolate

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="works as two users")


class NobodyLink(UserLink):
    """A host where we are an ordinary user."""

    def _start(self, command: Command) -> Channel:
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        return super()._start(replace(command, argv=(*user, *command.argv)))


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sparks]:
    isolate(tmp_path, monkeypatch)
    folder = Path(tempfile.mkdtemp(prefix="sparkfleet-c39-"))
    os.chown(folder, NOBODY, NOBODY)
    spark = Sparks(folder, [])
    spark.links["spark-01"] = NobodyLink("spark-01", HOME=str(folder), PATH="/usr/bin:/bin")
    yield spark
    shutil.rmtree(folder)


def test_an_unreadable_file_is_an_error_with_its_path_and_owner(
    spark: Sparks, tmp_path: Path
) -> None:
    source, manifest = bundle(tmp_path)
    spark.stage(manifest, source)
    path = spark.root("spark-01") / manifest.name / "config.json"
    path.write_bytes(path.read_bytes())
    os.chown(path, 0, 0)
    path.chmod(0)
    (verdict, *_) = [v for v in spark.verify(manifest)["spark-01"] if v.refuses]
    assert (verdict.check, verdict.subject) == ("weights.unreadable", str(path))
    assert verdict.seen == f"{path} of user 0 with mode 0"
    spark.stage(manifest, source)
    assert not checks(spark.verify(manifest)["spark-01"])


def test_a_readable_file_of_another_user_is_a_warning_that_names_the_first(
    spark: Sparks, tmp_path: Path
) -> None:
    source, manifest = bundle(tmp_path)
    spark.stage(manifest, source)
    folder = spark.root("spark-01") / manifest.name
    for name in ("tokenizer.json", "config.json"):
        os.chown(folder / name, 0, 0)
    found = {v.check: v for v in spark.verify(manifest)["spark-01"]}
    assert found["weights.owner"].subject == str(folder / "config.json")
    assert "chown -R nobody" in found["weights.owner"].fix
    assert not found["weights.owner"].refuses


def test_a_folder_that_we_cannot_write_is_refused_before_a_byte_moves(
    spark: Sparks, tmp_path: Path
) -> None:
    source, manifest = bundle(tmp_path)
    spark.stage(manifest, source)
    folder = spark.root("spark-01") / manifest.name
    (folder / "tokenizer.json").unlink()
    os.chown(folder, 0, 0)
    found = spark.plan(manifest)["spark-01"].verdicts
    assert checks(found) == ["weights.locked"]
    assert next(v.subject for v in found if v.refuses) == str(folder)
