"""One store of weights for several hosts: what each keeps of its own, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.inspection import inspect_weights
from tests.weights import bundle, isolate

OWN = "~/.local/state/sparkfleet/clusters"


def _host(name: str = "spark-01", **variables: str) -> Host:
    return Host(name=name, vars={key: Value(data=value) for key, value in variables.items()})


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({}, "~/vllm/.sparkfleet"),
        ({"weights_dir": "/nvme"}, "/nvme/.sparkfleet"),
        ({"weights_dir": "/nvme", "weights_strategy": "present"}, "/nvme/.sparkfleet"),
        ({"weights_dir": "/nas", "weights_strategy": "shared"}, OWN),
        ({"weights_strategy": "shared", "cluster_dir": "/own"}, "/own"),
        ({"cluster_dir": "/own"}, "/own"),
    ],
)
def test_cluster_files_are_next_to_the_weights_of_a_host_alone(
    variables: dict[str, str], folder: str
) -> None:
    assert Settings(host=_host(**variables)).cluster_dir == folder


def test_each_host_proves_the_store_once_and_nothing_is_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(tmp_path, monkeypatch)
    store, manifest = bundle(tmp_path / "store")
    before = sorted((tmp_path / "store").rglob("*"))
    for name in ("spark-01", "spark-02"):
        own = str(tmp_path / name)
        link = LocalConnection(_host(name, weights_strategy="shared", cluster_dir=own))
        looks = [inspect_weights(link, manifest, str(store.parent)) for _ in range(2)]
        assert [look.hashed for look in looks] == [manifest.size, 0]
        assert (tmp_path / name / "ledger.jsonl").stat().st_mode & 0o777 == 0o600
    assert sorted((tmp_path / "store").rglob("*")) == before


@pytest.mark.parametrize("line", ["weights_strategy: shared", "cluster_dir: /own"])
def test_a_recipe_cannot_set_where_hosts_keep_cluster_files(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.yml"
    path.write_text(f"vllm_model: m\ndescription: d\nsource: s\n{line}\n")
    with pytest.raises(RecipeError, match="describes the hosts") as refusal:
        load_recipe(str(path))
    assert "inventory" in str(refusal.value.hint)
