"""C38: staging used the control machine's cache path on the Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.weights.transfer import stage
from tests.gb10 import OUTPUTS
from tests.weights import Sparks, UserLink, bundle, isolate

REPORT = OUTPUTS / "rsync.bad-control-machine-path-on-target.txt"


class Homes(Sparks):
    """Hosts whose weights folder is the default of `weights_dir`."""

    def root(self, name: str) -> Path:
        return Path("~/vllm")


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sparks:
    isolate(tmp_path, monkeypatch)
    spark = Homes(tmp_path, [])
    for name, user in (("spark-01", "alice"), ("spark-02", "bob")):  # accounts differ: C27
        (tmp_path / "home" / user).mkdir(parents=True)
        spark.links[name] = UserLink(name, HOME=str(tmp_path / "home" / user))
    return spark


def test_the_weights_folder_is_below_the_home_of_each_hosts_own_user(
    spark: Sparks, tmp_path: Path
) -> None:
    source, manifest = bundle(tmp_path)
    plans = spark.plan(manifest)
    assert [plan.root for plan in plans.values()] == [
        str(tmp_path / "home" / user / "vllm") for user in ("alice", "bob")
    ]
    spark.stage(manifest, source)
    for user in ("alice", "bob"):
        assert (tmp_path / "home" / user / "vllm" / manifest.name / "config.json").is_file()


def test_no_path_of_the_control_machine_is_sent_to_a_host(
    spark: Sparks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = "/Users/alice/.cache/huggingface"
    assert foreign in REPORT.read_text()
    monkeypatch.setenv("HF_HOME", foreign)
    source, manifest = bundle(tmp_path / "Users" / "alice")
    spark.stage(manifest, source)
    for link in spark.links.values():
        stage.verify_weights(link, manifest, "~/vllm")
        assert isinstance(link, UserLink)
        assert b"/vllm" in link.sent
        assert str(source).encode() not in link.sent
        assert foreign.encode() not in link.sent
