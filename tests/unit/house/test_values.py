"""Every converter of values refuses with one wording: what is expected, and the value."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.values import (
    convert_choice,
    convert_duration,
    convert_flag,
    convert_integer,
    convert_ipv4_address,
    convert_mapping,
    convert_number,
    convert_size,
    convert_string,
    convert_text,
    parse_digits,
    parse_json,
)
from tests.source import PACKAGE, list_nodes

Convert = Callable[[], Any]


@pytest.mark.parametrize(
    ("convert", "value"),
    [
        (lambda: convert_integer("2", minimum=1), 2),
        (lambda: convert_integer(-3), -3),
        (lambda: convert_number("0.5", above=0, maximum=1), 0.5),
        (lambda: convert_size("2GiB"), 2 << 30),
        (lambda: convert_duration("1h30m"), 5400),
        (lambda: convert_flag("Yes"), True),
        (lambda: convert_flag(False), False),  # noqa: FBT003 - the value that is converted
        (lambda: convert_choice("mp", ("mp", "ray")), "mp"),
        (lambda: convert_text(" a "), "a"),
        (lambda: convert_string(" "), " "),
        (lambda: convert_mapping({"a": 1}), {"a": 1}),
        (lambda: convert_ipv4_address("0.0.0.0", owner="the head"), "0.0.0.0"),  # noqa: S104 - text
    ],
)
def test_a_value_is_converted(convert: Convert, value: object) -> None:
    assert convert() == value


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda: convert_integer("two", minimum=1), "expected an integer >= 1 (got 'two')"),
        (lambda: convert_integer(0, minimum=1), "expected an integer >= 1 (got 0)"),
        (lambda: convert_integer(9, maximum=8), "expected an integer <= 8 (got 9)"),
        (
            lambda: convert_integer(9, minimum=1, maximum=8),
            "expected an integer from 1 to 8 (got 9)",
        ),
        (lambda: convert_integer(value=True), "expected an integer (got True)"),
        (lambda: convert_integer("2", strict=True), "expected an integer (got '2')"),
        (lambda: convert_number(0, above=0), "expected a number > 0 (got 0)"),
        (lambda: convert_number(2, above=0, maximum=1), "expected a number > 0 and <= 1 (got 2)"),
        (lambda: convert_number(2, maximum=1), "expected a number <= 1 (got 2)"),
        (lambda: convert_number("nan"), "expected a number (got 'nan')"),
        (lambda: convert_number(None), "expected a number (got None)"),
        (lambda: convert_number("1", strict=True), "expected a number (got '1')"),
        (lambda: convert_size(0, minimum=1), "expected a size >= 1 bytes (got 0)"),
        (lambda: convert_duration("1s", minimum=10), "expected a duration >= 10s (got '1s')"),
        (lambda: convert_flag("perhaps"), "expected true or false (got 'perhaps')"),
        (lambda: convert_flag("yes", strict=True), "expected true or false (got 'yes')"),
        (lambda: convert_choice("tcp", ("mp", "ray")), "expected one of mp, ray (got 'tcp')"),
        (lambda: convert_text(" "), "expected text (got ' ')"),
        (lambda: convert_string(420), "expected text in quotes (got 420)"),
        (lambda: convert_string([]), "expected text (got [])"),
        (lambda: convert_mapping({1: 2}), "expected a mapping of names to values (got {1: 2})"),
        (lambda: convert_size("1k", minimum=3 << 29), "expected a size >= 1536MiB (got '1k')"),
        (
            lambda: convert_size("1GiB", minimum=1024, maximum=2048),
            "expected a size from 1KiB to 2KiB (got '1GiB')",
        ),
        (
            lambda: convert_ipv4_address("::1", owner="the head"),
            "expected an IPv4 address of the head, 0.0.0.0 or 127.0.0.1 (got '::1')",
        ),
    ],
)  # fmt: skip
def test_another_value_is_refused_with_what_is_expected(convert: Convert, message: str) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        convert()
    assert str(caught.value) == message


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"\.\.\.\)$"):
        convert_integer("9" * 5000)


@given(value=st.none() | st.text() | st.floats() | st.integers() | st.lists(st.integers()))
def test_no_value_leads_to_another_error(value: Any) -> None:
    for convert in (convert_integer, convert_number, convert_size, convert_duration, convert_flag):
        try:
            converted = convert(value)
        except ValueError:
            continue
        assert math.isfinite(converted)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" * 101 + "]" * 101, b'{"a": ' * 101 + b"0" + b"}" * 101, "9" * 5000, "{"],
    ids=["endless", "lists", "mappings", "digits", "cut"],
)
def test_text_that_is_not_json_is_one_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its words differ
        parse_json(text)


def test_json_of_a_usual_depth_is_read() -> None:
    assert parse_json("[" * 100 + "]" * 100)
    assert parse_json(b'["[[[", {"a": 1}]') == ["[[[", {"a": 1}]


def test_json_is_parsed_by_one_function() -> None:
    """Others forget that a text can nest deeper than Python counts."""
    sent = ("onhost/", "lab/")  # programs for hosts import the standard library only
    used = {
        name
        for name, nodes in list_nodes().items()
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "loads"
        if isinstance(node.value, ast.Name) and node.value.id == "json"
    }
    here = {name for name in used if not name.startswith(sent)}
    assert here == {
        "values.py",
        "regular_expressions.py",
    }  # the second reads its own program's answer


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("8000", 8000), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None)]
    + [(text, None) for text in ("", "-1", "+1", "1.0", " 1", "1_0", "\u0663", "\u00b2")],
    ids=lambda value: ascii(value)[:20],
)
def test_digits_are_a_number_of_a_usual_length(text: str, number: int | None) -> None:
    assert parse_digits(text) == number


def test_digits_are_read_by_one_function() -> None:
    """Others forget that `int` refuses 5000 digits, which `isdecimal` takes."""
    used = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "int(" in line and ("isdecimal()" in line or "isdigit()" in line)
    }
    assert {name for name in used if not name.startswith(("onhost/", "lab/"))} == set()
