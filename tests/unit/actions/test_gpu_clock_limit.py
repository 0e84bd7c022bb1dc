"""The limit of the GPU's clock: set where it is asked for, lifted where it is not, and undone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.deploy.gpu_clock_limit import (
    GpuClockLimit,
    GpuClockLimitArgs,
    find_limit_drift,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.launch.host import clock_limit
from sparkfleet.launch.host.clock_limit import ClockLimit
from sparkfleet.model import Host
from sparkfleet.remote.channel import Result
from sparkfleet.remote.connection import Connection
from tests.scenes import inventory, scene

SET = ClockLimit(highest=2150, in_force=True)
OLD = ClockLimit(highest=2150, in_force=False)  # of an earlier boot


class FakeHost:
    """Files and the GPU of a host; `boot` is its id, `refuses` what nvidia-smi says against it."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.ran: list[tuple[str, ...]] = []
        self.boot = "one"
        self.refuses = ""
        self.host = Host(name="a")

    def run(self, _: Command) -> Result:
        return Result(returncode=0, stdout=f"{self.boot}\n".encode(), stderr="")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost()

    def write(_: Connection, __: Mapping[str, str], files: Mapping[str, str | None]) -> None:
        for name, text in files.items():
            made.files.pop(name, None)
            if text is not None:
                made.files[name] = text

    def sudo(_: Connection, command: Command, __: Any) -> Result:
        made.ran.append(tuple(command.argv))
        text = made.refuses.encode()
        return Result(returncode=4 if text else 0, stdout=text, stderr="")

    monkeypatch.setattr(clock_limit, "read_file", lambda _, __, name: made.files.get(name))
    monkeypatch.setattr(clock_limit, "write_files", write)
    monkeypatch.setattr(clock_limit, "run_with_sudo", sudo)
    return made


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[RunContext]:
    with scene(tmp_path, hosts=inventory(("a",), gpu_clock_max=2150)) as made:
        yield made


@pytest.fixture
def free(tmp_path: Path) -> Iterator[RunContext]:
    with scene(tmp_path, hosts=inventory(("a",))) as made:
        yield made


def action(*, lift: bool = False) -> GpuClockLimit:
    return GpuClockLimit(GpuClockLimitArgs(lift=lift))


@pytest.mark.parametrize("found", [None, OLD, ClockLimit(highest=1800, in_force=True)])
def test_a_limit_is_set_where_it_is_not_in_force(
    limited: RunContext, found: ClockLimit | None
) -> None:
    plan = action().plan(limited, {"a": found})["a"]
    (change,) = plan.changes
    assert "sudo nvidia-smi -lgc 200,2150" in change.summary
    assert change.after == "2150 MHz\n"


def test_a_limit_that_is_in_force_is_left(limited: RunContext) -> None:
    plan = action().plan(limited, {"a": SET})["a"]
    assert (plan.needs_apply, plan.message) == (False, "limited to 2150 MHz")


def test_without_a_wish_nothing_is_done_unless_a_limit_is_left(free: RunContext) -> None:
    assert not action().plan(free, {"a": None})["a"].needs_apply
    (change,) = action().plan(free, {"a": SET})["a"].changes
    assert "sudo nvidia-smi -rgc" in change.summary
    stale = action().plan(free, {"a": OLD})["a"]
    assert (stale.changes, stale.needs_apply) == ((), True)


def test_a_cluster_that_stops_has_no_limit(limited: RunContext) -> None:
    (change,) = action(lift=True).plan(limited, {"a": SET})["a"].changes
    assert "none" in change.summary


def test_drift_names_both_limits() -> None:
    assert find_limit_drift(2150, SET) == ""
    assert find_limit_drift(None, OLD) == ""
    assert find_limit_drift(None, SET).endswith("2150 MHz, expected none")
    assert find_limit_drift(2150, OLD).endswith("none, expected 2150 MHz")


def test_it_is_set_with_a_record_and_lifted_without_one(fake: FakeHost) -> None:
    link: Any = fake
    assert clock_limit.read_clock_limit(link, {}) is None
    clock_limit.set_clock_limit(link, {}, 2150, password="")
    assert clock_limit.read_clock_limit(link, {}) == SET
    fake.boot = "two"
    assert clock_limit.read_clock_limit(link, {}) == OLD
    clock_limit.lift_clock_limit(link, {}, password="")
    assert fake.ran == [("nvidia-smi", "-lgc", "200,2150"), ("nvidia-smi", "-rgc")]
    assert fake.files == {}


def test_a_refusal_is_quoted_and_leaves_no_record(fake: FakeHost) -> None:
    link: Any = fake
    fake.refuses = "Setting locked GPU clocks is not supported for GPU 0000000F:01:00.0."
    with pytest.raises(CommandError, match="-lgc 200,2150: Setting locked GPU clocks is not sup"):
        clock_limit.set_clock_limit(link, {}, 2150, password="")
    assert fake.files == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{}"),
        json.dumps({"highest": "x", "boot": "one"}),
        json.dumps({"highest": math.inf, "boot": "one"}),
    ],
)
def test_a_record_of_another_shape_counts_as_none(fake: FakeHost, text: str) -> None:
    fake.files[clock_limit.RECORD] = text
    link: Any = fake
    assert clock_limit.read_clock_limit(link, {}) is None
