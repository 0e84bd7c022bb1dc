"""T2: known_hosts and SSH arguments of public reports."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from sparkfleet.model import Host, Value
from sparkfleet.remote.known_hosts import KeyVerdict, read_known_keys
from sparkfleet.remote.ssh_options import parse_ssh_options

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIFLzK16ChUFquoMrhQrxY3c1l6A00NpdPHhtP3R73ZMp"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIBRd6c7ncCj6kcJLAQORNfNyXFx3VedZN891SgnaUomg"
AUTHORITY = f"""\
@cert-authority 192.168.1.* ssh-ed25519 {OTHER} site-ca
192.168.1.20 ssh-ed25519 {KEY}
"""
REVOKED = f"""\
@revoked 192.168.1.30 ssh-ed25519 {OTHER}
192.168.1.20 ssh-ed25519 {KEY}
192.168.1.40 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBROKENLINE
"""
PATTERN = f"spark-*,192.168.1.2? ssh-ed25519 {KEY}\n"


@pytest.mark.parametrize(
    ("text", "name", "key", "expected"),
    [
        (AUTHORITY, "192.168.1.20", KEY, KeyVerdict.KNOWN),
        (AUTHORITY, "192.168.1.21", KEY, KeyVerdict.UNKNOWN),
        (AUTHORITY, "192.168.1.20", OTHER, KeyVerdict.CHANGED),
        (REVOKED, "192.168.1.20", KEY, KeyVerdict.KNOWN),
        (REVOKED, "192.168.1.30", OTHER, KeyVerdict.REVOKED),
        (REVOKED, "192.168.1.40", KEY, KeyVerdict.UNKNOWN),
        (PATTERN, "192.168.1.21", KEY, KeyVerdict.KNOWN),
        (PATTERN, "spark-02", KEY, KeyVerdict.KNOWN),
        (PATTERN, "192.168.1.2", KEY, KeyVerdict.UNKNOWN),
    ],
)
def test_t2_01_and_02_known_hosts_is_read_as_ssh_reads_it(
    tmp_path: Path, text: str, name: str, key: str, expected: KeyVerdict
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(text)
    known = read_known_keys([path], name)
    assert known.judge("ssh-ed25519", base64.b64decode(key)) is expected


@pytest.mark.parametrize(("name", "line"), [("192.168.1.21", 1), ("192.168.1.40", 3)])
def test_t2_01_a_line_that_does_not_count_is_named(tmp_path: Path, name: str, line: int) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(AUTHORITY if line == 1 else REVOKED)
    (remark,) = read_known_keys([path], name).remarks
    assert remark.startswith(f"{path}:{line} ")


def test_t2_08_arguments_that_only_tune_a_connection_are_accepted() -> None:
    args = (
        "-o ServerAliveInterval=30 -o ServerAliveCountMax=4 -o ControlMaster=auto "
        "-o ControlPersist=60s -o ForwardAgent=yes -C"
    )
    plain = parse_ssh_options(Host(name="spark-01"))
    tuned = Host(name="spark-01", vars={"ansible_ssh_common_args": Value(data=args)})
    assert parse_ssh_options(tuned) == plain
