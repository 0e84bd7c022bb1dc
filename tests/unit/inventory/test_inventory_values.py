"""Precedence of values, their origin, what they shadow, and how they are shown."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.files.ini_values import parse_value, split_ini_line
from sparkfleet.model import Inventory, Value


@pytest.fixture
def site(tmp_path: Path) -> Path:
    files = {
        "hosts.yml": "all:\n  vars: {who: all}\n  children:\n    racks:\n      vars: {who: racks}\n"
        "      children:\n        sparks:\n          vars: {who: sparks, kept: 1}\n"
        "          hosts: {spark1: {who: host}, spark2: }\n",
        "group_vars/all.yml": "who: group_vars/all\n",
        "group_vars/sparks.yml": "who: group_vars/sparks\n",
        "host_vars/spark1.yml": "who: host_vars\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_order_is_ansibles_from_all_to_extra_variables(site: Path) -> None:
    loaded = inventory.load_inventory([str(site / "hosts.yml")])
    assert [value.data for value in _chain(loaded, "spark1")] == [
        "host_vars",
        "host",
        "group_vars/sparks",
        "group_vars/all",
        "sparks",
        "racks",
        "all",
    ]
    assert loaded.hosts["spark2"].get("who") == "group_vars/sparks"
    extra = inventory.load_inventory([str(site / "hosts.yml")], extra_vars={"who": "extra"})
    assert {host.get("who") for host in extra.hosts.values()} == {"extra"}


def _chain(loaded: Inventory, host: str) -> list[Value]:
    value = loaded.hosts[host].vars["who"]
    return [value, *value.shadowed]


def test_a_value_is_explained_with_the_place_that_set_it_and_those_it_shadows(site: Path) -> None:
    loaded = inventory.load_inventory([str(site / "hosts.yml")])
    result = [
        line.replace(f"{site}/", "")
        for line in inventory.explain_host_variable(loaded, "spark1", "who")
    ]
    assert result[:4] == [
        'who on spark1: "host_vars"',
        "  set at host_vars/spark1.yml:1:6",
        '  shadows "host" from hosts.yml:9:33',
        '  shadows "group_vars/sparks" from group_vars/sparks.yml:1:6',
    ]
    assert inventory.explain_host_variable(loaded, "spark1", "vllm_port") == [
        "vllm_port on spark1: not set, default 8000"
    ]
    with pytest.raises(InventoryError) as refusal:
        inventory.explain_host_variable(loaded, "spark1", "kep")
    assert refusal.value.hint == "did you mean 'kept'?"
    with pytest.raises(InventoryError, match="host 'spark' not found"):
        inventory.explain_host_variable(loaded, "spark", "who")


def test_a_later_source_wins_and_its_hosts_come_later(tmp_path: Path) -> None:
    one = tmp_path / "one.yml"
    two = tmp_path / "two.ini"
    one.write_text("sparks: {hosts: {spark1: {a: 1, b: 1}}}\n")
    two.write_text("[sparks]\nspark2\nspark1 a=2\n")
    loaded = inventory.load_inventory([str(one), str(two)])
    assert list(loaded.hosts) == ["spark1", "spark2"]
    assert loaded.hosts["spark1"].get("a") == 2
    assert loaded.hosts["spark1"].get("b") == 1
    assert inventory.load_inventory([str(two), str(one)]).hosts["spark1"].get("a") == 1


def test_mappings_are_replaced_and_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {vars: {m: {a: 1, b: 1}}}\ns: {hosts: {h: }, vars: {m: {b: 2}}}\n")
    assert inventory.load_inventory([str(path)]).hosts["h"].get("m") == {"b": 2}


def test_a_host_knows_its_groups_and_a_group_its_members_and_variables(site: Path) -> None:
    loaded = inventory.load_inventory([str(site / "hosts.yml")])
    assert loaded.hosts["spark1"].groups == ("racks", "sparks")
    assert loaded.groups["sparks"].hosts == ("spark1", "spark2")
    assert loaded.groups["racks"].children == ("sparks",)
    assert loaded.groups["sparks"].vars["who"].data == "group_vars/sparks"
    assert loaded.hosts["spark1"].address == "spark1"


def test_a_dump_is_json_and_hides_what_ansible_keeps_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "s: {hosts: {h: {day: 2026-11-27, m: {2: a, true: b, ~: c}, raw: !unsafe x}}}\n"
    )
    dumped = inventory.dump_inventory(inventory.load_inventory([str(path)]))
    assert json.loads(json.dumps(dumped)) == {
        "all": {"children": ["ungrouped", "s"]},
        "s": {"hosts": ["h"]},
        "_meta": {
            "hostvars": {
                "h": {
                    "day": "2026-11-27",
                    "m": {"2": "a", "true": "b", "null": "c"},
                    "raw": {"__ansible_unsafe": "x"},
                }
            },
            "profile": "inventory_legacy",
        },
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("5 # five", 5),
        ("1.30", 1.3),
        ("True", True),
        ("true", "true"),
        ("None", None),
        ("'8000'", "8000"),
        ("", ""),
        ("[1, 'a']", [1, "a"]),
        ("(1, 2)", [1, 2]),
        ("{'a': (1,)}", {"a": [1]}),
        ("{1}", [1]),
        ("b'x'", "x"),
        ("1j", "1j"),
        ("...", "..."),
        ("192.168.1.1", "192.168.1.1"),
        ("1.2", 1.2),
        ("a-b", "a-b"),
        ("~/vllm", "~/vllm"),
        ("0x10", 16),
        ("010", "010"),
        ("1_000", 1000),
        ("a b", "a b"),
        ("9" * 5000, "9" * 5000),
        ("True # yes", True),
        ("True-x", "True-x"),
        ("Truest of all", "Truest of all"),
        ("set()", []),
        ("r'x'", "x"),
        ("rack 3, left", "rack 3, left"),
        ("0", 0),
        ("1234567890123456789", 1234567890123456789),
    ],
)
def test_a_value_in_ini_is_a_python_literal_or_text(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_a_literal_that_python_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a valid value: unhashable"):
        parse_value("{[]: 1}")


def test_a_value_of_many_hosts_is_parsed_once_and_each_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []

    def parse(text: str) -> list[object]:
        parsed.append(text)
        return [text]

    monkeypatch.setattr("ast.literal_eval", parse)
    first, *others = (parse_value("[7, 'of many hosts']") for _ in range(5))
    first.append("changed")
    assert parsed == ["[7, 'of many hosts']"]
    assert others == [["[7, 'of many hosts']"]] * 4


@given(st.text(alphabet="ab= \t'\"\\#", max_size=20))
def test_the_words_of_an_ini_line_are_those_of_a_shell(text: str) -> None:
    try:
        expected = shlex.split(text, comments=True)
    except ValueError:
        with pytest.raises(ValueError, match=r"No (closing quotation|escaped character)"):
            list(split_ini_line(text))
        return
    words = list(split_ini_line(text))
    assert [word for word, _ in words] == expected
    assert all(word.startswith(text[at]) or text[at] in "'\"\\" for word, at in words)


def test_a_graph_that_would_never_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    rungs = (f"a{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n" for n in range(40))
    sides = (f"b{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n" for n in range(40))
    path.write_text("".join([*rungs, *sides, "a40: {hosts: {spark1: }}\n"]))
    with pytest.raises(InventoryError, match="more than 100,000 lines"):
        inventory.format_group_graph(inventory.load_inventory([str(path)]))
