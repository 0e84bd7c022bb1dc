"""Syntax errors of YAML: the place of each, its message, and what to write instead."""

from __future__ import annotations

import pytest

from sparkfleet.errors import InputError, Problem
from sparkfleet.yaml import positions
from sparkfleet.yaml.syntax import ALIAS_HINT, ESCAPE_HINT, ITEMS_HINT, KEYS_HINT, QUOTE_HINT

NO_VALUE = "mapping values are not allowed in this context"
NO_KEY = "did not find expected key"
BROKEN_OFF = "is it complete? close each [ with ] and { with }"


def _read_problem(text: str) -> Problem:
    with pytest.raises(InputError) as refusal:
        positions.load_yaml(text, file="f")
    [problem] = refusal.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a:\n  b: 1\n c: 2\n", f"3:2: {NO_KEY}", KEYS_HINT),
        ("a:\n  b: 1\n   c: 2\n", f"3:5: {NO_VALUE}", KEYS_HINT),
        ("a: 1\n- b\n", f"2:1: {NO_KEY}", f"{KEYS_HINT}, and items of a list below their key"),
        ("a:\n  - 1\n  b: 2\n", "3:3: expected '- '", ITEMS_HINT),
        ("a: - b\n", "1:4: block sequence entries are not allowed in this context", None),
        ("a: b: c\n", f"1:5: {NO_VALUE}", QUOTE_HINT),
        ("a: {{ x }}/y\n", f"1:11: {NO_KEY}", QUOTE_HINT),
        ("a:1\n\nb: 2\n", f"3:2: {NO_VALUE}", "the line above: write a space after the"),
        (
            "a: 1\nb:2\nc: 3\n",
            "2:1: expected ': ' after a key",
            "write a space after the colon: b:",
        ),
        ("a: 1\nb\nc: 3\n", "2:1: expected ': ' after a key", "indent it if it belongs to"),
        ("a\nb: 1\n", f"2:2: {NO_VALUE}", 'the line above has no ": "'),
        ("a: {x: 1,\n  y: 2\nb: 3\n", "3:2: expected ',' or '}'", "close the { of line 1 with }"),
        ("a: [1\nb: 3\n", "2:2: expected ',' or ']'", "close the [ of line 1 with ], or add"),
        ("a: [1, 2]]\n", f"1:10: {NO_KEY}", "remove the ] that closes nothing"),
        ("a: [1,", "2:1: the file ends inside [ or {", BROKEN_OFF),
        ("a: [1,\n\n", "3:1: the file ends inside [ or {", BROKEN_OFF),
        ("a: [,]\n", "1:5: unexpected ','", "a value is missing before it"),
        ("a: ]\n", "1:4: unexpected ']'", 'quote a value that begins with ]: "]..."'),
        ("a: 'x\nb: 1\n", "1:4: unclosed quote '", "close it with another '; is the file"),
        ('a: "x\nb: 1\n', '1:4: unclosed quote "', 'close it with another "; is the file'),
        ("a: 'it's'\n", f"1:8: {NO_KEY}", "quote the whole value; write '' for a '"),
        ('a: "C:\\d"\n', "1:7: found unknown escape character", ESCAPE_HINT),
        ("a: b\n\tc: 2\n", "2:1: line indented with a tab", "use spaces"),
        ("a:\tb: c\n", f"1:5: {NO_VALUE}", QUOTE_HINT),
        ("a: &x 1\nb: &x 2\n", "2:4: duplicate anchor 'x', first set on line 1", "give each"),
        ("a: *x\n", "1:4: found undefined alias 'x'", ALIAS_HINT),
        ("a: * x\n", "1:5: expected a name after *", ALIAS_HINT),
        ("a: & x\n", "1:5: expected a name after &", "quote a value that begins with &"),
        ("a: @x\n", "1:4: unexpected '@'", 'quote a value that begins with @: "@..."'),
        ("a: `x`\n", "1:4: unexpected '`'", "quote a value that begins with `"),
        ("a: %x\n", "1:4: unexpected '%'", "quote a value that begins with %"),
        ("a: {% if x %}\n", "1:5: unexpected '{%'", "quote a value that begins with {%"),
        ("%x: 1\n", "1:3: found unexpected non-alphabetical character", "quote a key that"),
        ("a: >=1.0\n", "1:5: unexpected text after | or >", "start its text on the next line"),
        ("a: !<x 1\n", "1:7: did not find the expected '>'", "quote a value that begins with !"),
        ("a: 1\n---\nb: 1\n", "2:1: expected a single document", "delete the line ---"),
    ],
)
def test_a_syntax_error_has_its_place_and_what_to_write(
    text: str, message: str, hint: str | None
) -> None:
    problem = _read_problem(text)
    place, _, expected = message.partition(": ")
    assert str(problem.where) == f"f:{place}"
    assert problem.message == f"invalid YAML: {expected}"
    assert (problem.hint or "").startswith(hint or "start the list on the next line")


def test_a_hint_repeats_a_key_without_its_value() -> None:
    problem = _read_problem("TOKEN:secret\nb: 1\n")
    assert "TOKEN: VALUE" in str(problem)
    assert "secret" not in str(problem)
