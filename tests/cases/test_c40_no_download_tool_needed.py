"""C40: the download tool was "not found" though the weights were there, the draft's too."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.weights import hub
from sparkfleet.weights.transfer.sources import HubSource
from tests.doubles.hub_server import HubServer
from tests.weights import COMMIT, Sparks, UserLink, bundle, files, isolate


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sparks:
    """Return a host whose PATH holds Python and nothing else: no hf, no rsync, no curl."""
    isolate(tmp_path, monkeypatch)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(shutil.which("python3") or "/usr/bin/python3")
    spark = Sparks(tmp_path / "hosts", ["spark-01"])
    spark.links["spark-01"] = UserLink("spark-01", PATH=str(tools))
    return spark


@pytest.mark.parametrize("name", ["nvidia/Gemma-4-31B-IT-NVFP4", "google/gemma-4-31B-it-assistant"])
def test_complete_weights_need_no_tool_whether_model_or_draft(
    spark: Sparks, tmp_path: Path, name: str
) -> None:
    source, manifest = bundle(tmp_path)
    shutil.copytree(source, spark.root("spark-01") / "drafts" / "here")
    report = spark.stage(replace(manifest, name=name, commit=COMMIT))
    assert report.landed["spark-01"].bytes == 0
    assert spark.complete(replace(manifest, name=name, commit=COMMIT))


def test_even_a_download_needs_only_python(spark: Sparks, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        server.add("org/gemma", files())
        manifest = hub.resolve_manifest("org/gemma")
        spark.stage(manifest, HubSource(url=hub.resolve_url(manifest)))
    assert spark.complete(manifest)
