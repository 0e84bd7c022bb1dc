"""Every keyword of ssh_config is used, refused by name, or known to have no effect here."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sparkfleet.errors import InventoryError, UsageError
from sparkfleet.model import Host, Value
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_keywords import KEYWORDS, REFUSED, USED, WITHOUT_EFFECT
from sparkfleet.remote.ssh_options import SshOptions, parse_ssh_options

DOCUMENT = Path(__file__).parents[3] / "docs" / "inventory.md"
OF_DEBIAN_12 = 104  # keywords in the manual page of OpenSSH 9.2
STRANGE = {  # values that are not fine
    "BindAddress": "10.0.0.1",
    "BindInterface": "lo",
    "ProxyCommand": "nc %h %p",
    "Tunnel": "yes",
    "RevokedHostKeys": "/revoked",
    "KnownHostsCommand": "/usr/bin/keys %H",
    "CheckHostIP": "yes",
    "VerifyHostKeyDNS": "yes",
    "NoHostAuthenticationForLocalhost": "yes",
    "HostbasedAuthentication": "yes",
    "PubkeyAuthentication": "no",
    "PKCS11Provider": "/usr/lib/token.so",
    "CertificateFile": "/keys/other-cert.pub",
}
NOT_EVERYWHERE = ("GSSAPIKeyExchange", "RefuseConnection")  # of Debian's ssh; of OpenSSH 10


def _complete(config: Path, args: str = "") -> SshOptions:
    words = Value(data=f"-F {config} {args}")
    return complete_ssh_options(
        parse_ssh_options(Host(name="spark1", vars={"ansible_ssh_common_args": words}))
    )


def _read_manual() -> set[str]:
    if shutil.which("man") is None:
        pytest.skip("no man on this machine")
    done = subprocess.run(
        ["man", "ssh_config"],
        env={"MANWIDTH": "200", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("no manual page of ssh_config on this machine")
    return set(re.findall(r"^     ([A-Z][A-Za-z0-9]+)(?:$|  )", done.stdout, re.MULTILINE))


def test_every_keyword_of_the_manual_page_is_in_the_table() -> None:
    assert {name for name in _read_manual() if name.lower() not in KEYWORDS} == set()


def test_the_table_holds_each_keyword_once() -> None:
    rows = (*USED, *REFUSED, *WITHOUT_EFFECT)
    assert len(rows) == len(KEYWORDS) > OF_DEBIAN_12


def test_the_document_has_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+) \| (used|refused|no effect) \| (.+) \|$", text, re.MULTILINE)
    written = {
        name: (treatment, note)
        for names, treatment, note in rows
        for name in re.findall(r"`([A-Z]\w+)`(?:,| |$)", re.sub(r"\(.*?\)", "", names))
    }
    assert written == {row.name: (row.treatment, row.note) for row in KEYWORDS.values()}


def test_every_refused_keyword_is_tried_here() -> None:
    assert {row.name for row in REFUSED} == {*STRANGE, *NOT_EVERYWHERE}


@pytest.mark.parametrize(("name", "value"), STRANGE.items())
def test_a_keyword_that_changes_trust_keys_or_way_is_refused_before_a_host_is_touched(
    tmp_path: Path, name: str, value: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host spark1\n {name} {value}\n")
    with pytest.raises(UsageError, match="unsupported SSH option") as caught:
        _complete(config)
    assert f"{name} " in caught.value.message
    config.write_text("")
    with pytest.raises(InventoryError, match="is not supported") as refused:
        _complete(config, f"-o '{name}={value}'")
    assert KEYWORDS[name.lower()].note in str(refused.value)


@pytest.mark.parametrize("row", [row for row in REFUSED if row.fine], ids=lambda row: row.name)
def test_a_refused_keyword_has_values_that_are_fine(tmp_path: Path, row: object) -> None:
    name, value = row.name, row.fine[0]  # type: ignore[attr-defined] # a Keyword
    config = tmp_path / "config"
    config.write_text("" if name in NOT_EVERYWHERE else f"Host spark1\n {name} {value}\n")
    assert _complete(config, f"-o {name}={value}").address == "spark1"


@pytest.mark.parametrize(
    ("named", "agent", "path"),
    [
        ("/run/agent", True, "/run/agent"),
        ("~/.1password/agent.sock", True, "/home/anna/.1password/agent.sock"),
        ('"~/Group Containers/agent.sock"', True, "/home/anna/Group Containers/agent.sock"),
        ("%d/agents/%h", True, "/home/anna/agents/spark1"),
        ("${OF_TEST}/agent", True, "/of/test/agent"),
        ("$OF_TEST", True, "/of/test"),
        ("SSH_AUTH_SOCK", True, ""),
        ("none", False, ""),
    ],
)
def test_the_agent_that_the_configuration_names_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, path: str, *, agent: bool
) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir  # ssh takes it from there, not from HOME
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("OF_TEST", "/of/test")
    config = tmp_path / "config"
    config.write_text(f"Host spark1\n IdentityAgent {named}\n")
    options = _complete(config)
    assert (options.agent, options.agent_socket) == (agent, path.replace("/home/anna", home))


def test_a_certificate_next_to_its_key_may_be_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host spark1\n IdentityFile /keys/a\n CertificateFile /keys/a-cert.pub\n")
    assert _complete(config).address == "spark1"


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ("-o IdentitiesOnly=yes", "identities_only", True),
        ("-o 'IdentitiesOnly yes'", "identities_only", True),
        ("-oIdentitiesOnly=no", "identities_only", False),
        ("-o AddressFamily=inet", "family", "inet"),
        ("-6", "family", "inet6"),
        ("-o IdentityAgent=none", "agent", False),
        ("-o IdentityAgent=SSH_AUTH_SOCK", "agent", True),
        ("-o IdentityAgent=/run/agent", "agent_socket", "/run/agent"),
        ("-o RequiredRSASize=3072", "rsa_bits", 3072),
        ("-o HashKnownHosts=yes", "hash_names", True),
    ],
)
def test_what_ssh_reads_from_the_arguments_is_used(
    tmp_path: Path, args: str, field: str, value: object
) -> None:
    config = tmp_path / "config"
    config.write_text("")
    assert getattr(_complete(config, args), field) == value


def test_algorithms_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host spark1\n Ciphers aes256-ctr\n HostKeyAlgorithms ssh-ed25519\n")
    allowed = dict(_complete(config, "-m hmac-sha2-512").algorithms)
    assert allowed["ciphers"] == ("aes256-ctr",)
    assert allowed["keys"] == ("ssh-ed25519",)
    assert allowed["macs"] == ("hmac-sha2-512",)
    assert len(allowed["kex"]) > 1


@pytest.mark.parametrize(
    "args",
    [
        "-C -o ControlMaster=auto -o ControlPersist=60s",  # Ansible's own default
        "-o ControlPath=~/.ssh/%C -S none -tt -vvv -4 -x",
        "-o KbdInteractiveAuthentication=no -o PasswordAuthentication=no -o ConnectTimeout=10",
        "-o PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey",
        "-o SetEnv=A=b -o SendEnv=LC_* -o IPQoS=throughput -o RekeyLimit=1G",
    ],
)
def test_options_that_ansible_uses_have_no_effect(tmp_path: Path, args: str) -> None:
    config = tmp_path / "config"
    config.write_text("")
    plain = parse_ssh_options(
        Host(name="spark1", vars={"ansible_ssh_common_args": Value(data=f"-F {config}")})
    )
    words = Value(data=f"-F {config} {args}")
    found = parse_ssh_options(Host(name="spark1", vars={"ansible_ssh_common_args": words}))
    family = tuple(word for word in found.words if word.startswith("AddressFamily"))
    assert found.words == family
    assert found.address == plain.address
    assert _complete(config, args).port == 22


@pytest.mark.parametrize("args", ["-o NoSuchKeyword=1", "-o", "-Z", "-o Port=", "-L 1:a:1", "-w 0"])
def test_an_option_that_ssh_does_not_have_is_refused(tmp_path: Path, args: str) -> None:
    with pytest.raises(InventoryError, match="is not supported"):
        _complete(tmp_path / "config", args)
