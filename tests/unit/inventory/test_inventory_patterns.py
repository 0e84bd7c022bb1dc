"""Host patterns select as Ansible's do; one that matches nothing is an error with a suggestion."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.model import Group, Host, Inventory

FLEET = Inventory(
    sources=(),
    hosts={name: Host(name=name) for name in ("spark1", "spark2", "spark3", "spark4", "nas")},
    groups={
        "all": Group(name="all", children=("ungrouped", "sparks", "storage")),
        "ungrouped": Group(name="ungrouped"),
        "sparks": Group(name="sparks", hosts=("spark1", "spark2", "spark3"), children=("late",)),
        "late": Group(name="late", hosts=("spark4", "spark1")),
        "storage": Group(name="storage", hosts=("nas",)),
    },
)


def _names(pattern: str) -> list[str]:
    return [host.name for host in inventory.select_hosts(FLEET, pattern)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("all", "spark1 spark2 spark3 nas spark4"),
        ("*", "spark1 spark2 spark3 nas spark4"),
        ("sparks", "spark1 spark2 spark3 spark4"),
        ("spark2", "spark2"),
        ("spark3,spark1", "spark3 spark1"),
        ("spark3:spark1", "spark3 spark1"),
        ("spark3 : spark1", "spark3 spark1"),
        ("sparks:!spark2", "spark1 spark3 spark4"),
        ("!storage", "spark1 spark2 spark3 spark4"),
        ("sparks:&late", "spark1 spark4"),
        ("all:&sparks:!late", "spark2 spark3"),
        ("!late:sparks", "spark2 spark3"),
        ("spark[!34s]", "spark1 spark2"),
        ("n?s", "nas"),
        ("~spark[34]$", "spark3 spark4"),
        ("~(nas|spark1)", "spark1 nas"),
        ("sparks[0]", "spark1"),
        ("sparks[-1]", "spark4"),
        ("sparks[1:2]", "spark2 spark3"),
        ("sparks[1:]", "spark2 spark3 spark4"),
        ("sparks[2:9]", "spark3 spark4"),
        ("sparks[0:0]", "spark1"),
        ("sparks[0]:storage", "spark1 nas"),
        ("localhost", "localhost"),
    ],
)
def test_a_pattern_selects_hosts_in_ansibles_order(pattern: str, names: str) -> None:
    assert _names(pattern) == names.split()


def test_localhost_that_is_not_in_the_inventory_is_this_machine() -> None:
    [host] = inventory.select_hosts(FLEET, "localhost")
    assert host.get("ansible_connection") == "local"


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("sparsk", "'sparsk' matches no host and no group", "did you mean 'sparks'?"),
        ("spark1,spark22", "'spark22' matches no host and no group", "did you mean 'spark2'?"),
        ("sparks:!spraks", "'spraks' matches no host and no group", "did you mean 'sparks'?"),
        ("zzz", "'zzz' matches no host and no group", "groups: all, sparks, late, storage"),
        ("spark1:!spark1", "'spark1:!spark1' selects no host", "groups: "),
        ("sparks[7]", "'sparks[7]' selects no host: 'sparks' has 4, counted from 0", None),
        ("sparks[7:9]", "'sparks[7:9]' selects no host", None),
        ("~(", "'~(' is not a pattern: ", None),
        ("", "the host pattern '' is empty or incomplete", None),
        ("sparks:!", "the host pattern 'sparks:!' is empty or incomplete", None),
        ("ungrouped", "the group 'ungrouped' has no hosts", "groups: "),
    ],
)
def test_what_selects_nothing_is_refused_with_a_suggestion(
    pattern: str, message: str, hint: str | None
) -> None:
    with pytest.raises(InventoryError) as refusal:
        inventory.select_hosts(FLEET, pattern)
    assert message in refusal.value.message
    assert (hint or "") in (refusal.value.hint or "")


@example("~[0~~,")
@example("~[[s]park1")
@given(st.text("spark12nl:,!&~[]*?.()-0|\\ ", max_size=20))
def test_any_pattern_selects_each_host_once_or_is_refused(pattern: str) -> None:
    try:
        names = _names(pattern)
    except InventoryError as refusal:
        names = [refusal.message]
    assert names
    assert len(set(names)) == len(names)


@given(st.sets(st.sampled_from(sorted(FLEET.hosts)), min_size=1))
def test_a_list_of_names_selects_just_these(names: set[str]) -> None:
    assert _names(",".join(sorted(names))) == sorted(names)
