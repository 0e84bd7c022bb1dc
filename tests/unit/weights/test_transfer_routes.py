"""Every host gets every file over shared addresses, and none sends more than it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.weights.layout import FileLocation
from sparkfleet.weights.manifest import ModelFile
from sparkfleet.weights.transfer.routes import Ends, Routes, Shared, plan_routes, split_into_streams
from sparkfleet.weights.transfer.stage import Send, StagePlan


def send(name: str, size: int = 10) -> Send:
    return Send(
        location=FileLocation(
            file=ModelFile(path=name, size=size, sha256="0" * 64), path=name, blob=name
        )
    )


def plans(lacking: Mapping[str, Iterable[str]]) -> dict[str, StagePlan]:
    return {
        host: StagePlan(host=host, root="~/vllm", sends=tuple(send(name) for name in names))
        for host, names in lacking.items()
    }


def ends(one: str, two: str) -> Ends:
    return Ends(sender=f"{one}-to-{two}", receiver=f"{two}-to-{one}")


def cables(*pairs: str) -> Shared:
    joined = {frozenset(pair.split("-")) for pair in pairs}
    return lambda one, two: ends(one, two) if frozenset((one, two)) in joined else None


def pairs(found: Routes) -> list[tuple[str, str]]:
    return [(leg.sender, leg.receiver) for leg in found.legs]


def test_behind_a_switch_files_flow_along_a_chain() -> None:
    found = plan_routes(plans({"a": "", "b": "xy", "c": "xy", "d": "xy"}), "a", ends)
    assert pairs(found) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert found.outside == {}


def test_of_eight_hosts_none_sends_more_than_one_copy() -> None:
    found = plan_routes(plans({"a": "", **dict.fromkeys("bcdefgh", "xyz")}), "a", ends)
    sent = {host: sum(leg.size for leg in found.legs if leg.sender == host) for host in "abcdefgh"}
    assert max(sent.values()) == 30
    assert {leg.receiver for leg in found.legs} == set("bcdefgh")


def test_a_file_that_no_host_has_comes_from_outside_to_the_origin_only() -> None:
    found = plan_routes(plans({"a": "x", "b": "x", "c": "x"}), "b", ends)
    assert list(found.outside) == ["b"]
    assert pairs(found) == [("b", "a"), ("a", "c")]


def test_a_file_comes_from_any_host_that_has_it() -> None:
    found = plan_routes(plans({"a": "x", "b": "y"}), "a", ends)
    assert {(leg.sender, leg.receiver, leg.sends[0].location.blob) for leg in found.legs} == {
        ("b", "a", "x"),
        ("a", "b", "y"),
    }


def test_in_a_ring_files_go_only_over_cables() -> None:
    ring = cables("a-b", "b-c", "c-d", "d-a")
    found = plan_routes(plans({"a": "", "b": "x", "c": "x", "d": "x"}), "a", ring)
    assert pairs(found) == [("a", "b"), ("b", "c"), ("c", "d")]


def test_from_the_middle_of_a_line_files_go_both_ways() -> None:
    found = plan_routes(plans({"a": "x", "b": "", "c": "x"}), "b", cables("a-b", "b-c"))
    assert pairs(found) == [("b", "a"), ("b", "c")]


def test_a_host_without_a_cable_gets_its_files_from_outside() -> None:
    found = plan_routes(plans({"a": "", "b": "x", "c": "x"}), "a", cables("a-b"))
    assert pairs(found) == [("a", "b")]
    assert list(found.outside) == ["c"]


def test_addresses_are_those_of_the_pair() -> None:
    (leg,) = plan_routes(plans({"a": "", "b": "x"}), "a", ends).legs
    assert leg.ends == Ends(sender="a-to-b", receiver="b-to-a")


HOSTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from("uvwxyz")), min_size=1
)


@given(lacking=HOSTS, joined=st.sets(st.tuples(*[st.sampled_from("abcdefgh")] * 2)))
def test_every_file_reaches_every_host_once_from_one_that_had_it_before(
    lacking: dict[str, frozenset[str]], joined: set[tuple[str, str]]
) -> None:
    found = plan_routes(
        plans({host: sorted(names) for host, names in lacking.items()}),
        next(iter(lacking)),
        lambda one, two: ends(one, two) if {(one, two), (two, one)} & joined else None,
    )
    came: dict[tuple[str, str], str] = {}
    for host, sends in found.outside.items():
        came |= {(host, one.location.blob): "outside" for one in sends}
    for leg in found.legs:
        for one in leg.sends:
            assert (leg.receiver, one.location.blob) not in came
            came[leg.receiver, one.location.blob] = leg.sender
    assert set(came) == {(host, name) for host, names in lacking.items() for name in names}
    for host, name in came:
        steps = 0
        while (host, name) in came and came[host, name] != "outside":
            host, steps = came[host, name], steps + 1  # noqa: PLW2901 - walks to the source
            assert steps <= len(lacking)


def test_streams_share_the_bytes_and_keep_the_order() -> None:
    sends = [send(str(number), size) for number, size in enumerate([70, 10, 20, 30, 10])]
    streams = split_into_streams(sends, 2)
    assert [[one.location.blob for one in stream] for stream in streams] == [
        ["0"],
        ["1", "2", "3", "4"],
    ]
    assert split_into_streams(sends[:1], 4) == [sends[:1]]
