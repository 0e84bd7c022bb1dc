"""Tables show all that is in them, on any terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sparkfleet.cli.views import tables

CELLS = ("spark-01", "enP2p1s0f1np1", "10.78.1.1/24", "[red]no markup[/nor this]")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_nothing_is_cut_where_it_is_narrow(width: int) -> None:
    stream = io.StringIO()
    table = tables.create_table("host", "netdev", "address", "seen")
    table.add_row(*CELLS)
    Console(file=stream, width=width, markup=False).print(table)
    text = stream.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    for character in set("".join(CELLS)) - {" "}:
        assert text.count(character) >= "".join(CELLS).count(character)


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = tables.create_table("seen")
    table.add_row(CELLS[-1])
    tables.create_console().print(table)
    assert CELLS[-1] in capsys.readouterr().out


def _print_row(width: int) -> list[str]:
    stream = io.StringIO()
    table = tables.create_table("host", "netdev", "address", "seen", "fix")
    table.add_row(*CELLS, "")
    Console(file=stream, width=width, markup=False).print(table)
    return stream.getvalue().splitlines()


def test_a_table_that_is_too_wide_is_a_list_of_lines() -> None:
    assert _print_row(60) == [
        "host: spark-01",
        "  netdev: enP2p1s0f1np1",
        "  address: 10.78.1.1/24",
        "  seen: [red]no markup[/nor this]",
    ]


def test_a_table_knows_the_columns_that_it_needs() -> None:
    table = tables.create_table("host", "address")
    table.add_row("spark-01", "10.78.1.1/24")
    console = Console(width=5)
    assert tables.measure_table(table, console) == len(" spark-01  10.78.1.1/24 ")


def test_a_table_that_fits_is_a_table() -> None:
    head, row = _print_row(120)
    assert head.split() == ["host", "netdev", "address", "seen", "fix"]
    assert row.split()[:2] == ["spark-01", "enP2p1s0f1np1"]
