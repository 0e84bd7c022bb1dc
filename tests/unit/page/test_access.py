"""The address of the page, and the file with its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.page.access import decide_access, read_page_token
from sparkfleet.variables.binding import Binding, parse_binding

TOKEN = "0123456789abcdef"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("127.0.0.1:8090", "127.0.0.1", 8090),
        (f"{EVERYWHERE}:1", EVERYWHERE, 1),
        (":9000", "127.0.0.1", 9000),
        ("", "127.0.0.1", 8090),
        ("localhost:0", "127.0.0.1", 0),
        ("192.168.1.5", "192.168.1.5", 8090),
        ("[::1]:8090", "::1", 8090),
        ("[::]", "::", 8090),
    ],
)
def test_an_address_may_leave_out_a_part(text: str, address: str, port: int) -> None:
    assert parse_binding(text) == Binding(address=address, port=port)


@pytest.mark.parametrize("text", ["spark:8090", "1.2.3.4:http", "1.2.3.4:65536", "1.2.3.4:-1", "a"])
def test_another_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_binding(text)


def test_an_address_of_the_network_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a token") as raised:
        decide_access(Binding(address=EVERYWHERE, port=8090), None)
    assert "--token-file" in str(raised.value)
    assert decide_access(Binding(), None).token == ""
    path = write_token(tmp_path, TOKEN)
    assert decide_access(Binding(address=EVERYWHERE), path).token == TOKEN
    assert decide_access(Binding(), path).token == TOKEN


def write_token(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "page-token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_a_line(tmp_path: Path) -> None:
    assert read_page_token(write_token(tmp_path, f"{TOKEN}\n")) == TOKEN


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (TOKEN, 0o640, "other users can read it"),
        (TOKEN, 0o604, "other users can read it"),
        ("short", 0o600, "expected one line of 16"),
        ("two lines of text\nand more", 0o600, "expected one line of 16"),
        ("é" * 20, 0o600, "expected one line of 16"),
        ("x" * 2000, 0o600, "expected one line of 16"),
    ],
    ids=["group", "others", "short", "lines", "accents", "long"],
)
def test_another_file_is_refused_without_its_content(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    path = write_token(tmp_path, text, mode)
    with pytest.raises(UsageError, match=reason) as raised:
        read_page_token(path)
    assert text not in str(raised.value)
    assert TOKEN not in repr(decide_access(Binding(), write_token(tmp_path, TOKEN)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none: No such file"):
        read_page_token(tmp_path / "none")
