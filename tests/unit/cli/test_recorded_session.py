"""README's session of the first hour is a recorded one."""

from __future__ import annotations

from tests.e2e.record_first_hour import (
    CAST,
    README,
    format_cast,
    format_session,
    read_cast,
    replace_session,
)


def test_readme_shows_what_the_cast_shows() -> None:
    text = README.read_text()
    assert replace_session(text, format_session(read_cast(CAST))) == text


def test_the_recorded_session_has_three_commands_and_their_answers() -> None:
    shown = read_cast(CAST)
    commands = [line for line in shown.splitlines() if line.startswith("$ sparkfleet")]
    assert [line.split()[2] for line in commands] == ["init", "links.apply", "cluster.up"]
    assert "wrote inventories/local.yml" in shown
    assert "spark2: kept" in shown
    assert "=> 12*17 -> 204" in shown


def test_a_cast_has_no_name_of_the_machine_that_recorded_it() -> None:
    events = [
        (0.1, "ready> "),
        (0.2, "sparkfleet init\r\nwrote /tmp/x"),
        (0.3, "y/file\r\nwhich? "),
    ]
    names = {"/tmp/xy": "/home/me/sparks", "ready> ": "$ "}
    text = format_cast(events, names)
    assert "/tmp" not in text
    assert text.count("\n") == 5
    assert "wrote /home/me/sparks/file" in text
