"""Everything that a recipe loads, taken together: room, supply, and who sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkfleet.errors import GateError
from sparkfleet.weights.inspection import IncompleteFile, Inspection, Storage
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.required_models import ResolvedModel
from sparkfleet.weights.transfer.plan import (
    TransferPlan,
    check_supply,
    find_suppliers,
    plan_transfers,
)
from sparkfleet.weights.transfer.routes import Ends, share_no_address
from sparkfleet.weights.transfer.sources import HubSource
from sparkfleet.weights.transfer.stage import Strategy

GIB = 2**30
STORAGE = Storage(
    root="/home/nvidia/vllm",
    base="/home/nvidia/vllm",
    folder=True,
    writable=True,
    owner="nvidia",
    user="nvidia",
    filesystem="ext4",
    free=100 * GIB,
    free_inodes=5,
)
HOSTS = ("spark-01", "spark-02")


def stock(name: str, size: int = 60 * GIB, *, hub: bool = True) -> ResolvedModel:
    file = ModelFile(path="a.safetensors", size=size, sha256=name[0].encode().hex() * 32)
    source = HubSource(url=f"https://hub/{name}/resolve/1/") if hub else None
    return ResolvedModel(manifest=Manifest(name=name, files=(file,)), source=source)


def lacking(one: ResolvedModel, host: str, storage: Storage = STORAGE) -> Inspection:
    path = f"{one.manifest.name}/a.safetensors"
    finding = IncompleteFile(path=path, state="missing", seen="no file")
    return Inspection(host=host, storage=storage, findings=(finding,))


def having(_: ResolvedModel, host: str, storage: Storage = STORAGE) -> Inspection:
    return Inspection(host=host, storage=storage)


def refusals(one: TransferPlan, host: str) -> list[str]:
    return [verdict.check for verdict in one.plans[host].verdicts if verdict.refuses]


def shared(sender: str, receiver: str) -> Ends:
    return Ends(sender=sender, receiver=receiver)


def test_the_space_for_a_model_and_its_draft_is_added_up() -> None:
    stocks = (stock("model"), stock("draft"))
    model, draft = plan_transfers(
        stocks, {"spark-01": [lacking(one, "spark-01") for one in stocks]}, Strategy.FANOUT
    )
    assert refusals(model, "spark-01") == []
    assert refusals(draft, "spark-01") == ["weights.space"]
    (verdict,) = [v for v in draft.plans["spark-01"].verdicts if v.refuses]
    assert verdict.expected == "129 GB in addition to the existing files"


def test_files_that_exist_need_no_space() -> None:
    stocks = (stock("model"), stock("draft"))
    seen = {"spark-01": [having(stocks[0], "spark-01"), lacking(stocks[1], "spark-01")]}
    assert [refusals(one, "spark-01") for one in plan_transfers(stocks, seen, Strategy.FANOUT)] == [
        [],
        [],
    ]


def test_inodes_are_counted_together_as_well() -> None:
    tight = replace(STORAGE, free_inodes=1)
    stocks = (stock("model", 1), stock("draft", 1))
    seen = {"spark-01": [lacking(one, "spark-01", tight) for one in stocks]}
    assert [refusals(one, "spark-01") for one in plan_transfers(stocks, seen, Strategy.FANOUT)] == [
        [],
        ["weights.inodes"],
    ]


def test_each_host_knows_who_sends_to_it() -> None:
    one = stock("model")
    seen = {name: [lacking(one, name)] for name in HOSTS}
    (order,) = plan_transfers([one], seen, Strategy.FANOUT)
    assert find_suppliers(order, shared) == {"spark-01": ("the Hub",), "spark-02": ("spark-01",)}
    assert find_suppliers(order, share_no_address) == {
        "spark-01": ("the Hub",),
        "spark-02": ("the Hub",),
    }
    seen["spark-02"] = [having(one, "spark-02")]
    (order,) = plan_transfers([one], seen, Strategy.FANOUT)
    assert find_suppliers(order, shared) == {"spark-01": ("spark-02",), "spark-02": ()}


def test_a_file_without_a_source_is_refused_before_a_byte_moves() -> None:
    one = stock("model", hub=False)
    (order,) = plan_transfers([one], {"spark-01": [lacking(one, "spark-01")]}, Strategy.FANOUT)
    assert find_suppliers(order, share_no_address) == {"spark-01": ("no source",)}
    with pytest.raises(GateError, match="no source for 1 files") as caught:
        check_supply(order, share_no_address)
    assert caught.value.host == "spark-01"


def test_without_a_copy_no_host_starts_a_sender() -> None:
    one = stock("model", hub=False)
    (order,) = plan_transfers([one], {"spark-01": [lacking(one, "spark-01")]}, Strategy.PRESENT)
    assert refusals(order, "spark-01") == ["weights.missing"]
    check_supply(order, share_no_address)


def test_a_plan_without_hosts_has_no_senders() -> None:
    (order,) = plan_transfers([stock("model")], {}, Strategy.FANOUT)
    assert find_suppliers(order, shared) == {}
