"""`hosts.trust` with the sshd of lab hosts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sparkfleet.cli.hosts.options import TrustOptions
from sparkfleet.cli.hosts.trust import show_host_keys
from sparkfleet.cli.options import parse_options
from sparkfleet.commands import Command
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.model import Host, Value
from sparkfleet.remote.ssh import connect_ssh

pytestmark = pytest.mark.fleet


def _list_fingerprints(known_hosts: Path) -> list[str]:
    done = subprocess.run(
        ["ssh-keygen", "-lf", str(known_hosts)], capture_output=True, text=True, check=True
    )
    return [line.split()[1] for line in done.stdout.splitlines()]


def test_keys_that_are_trusted_by_fingerprint_let_openssh_and_us_in(
    lab: LabFleet, tmp_path: Path
) -> None:
    path = tmp_path / "known_hosts"
    variables = {
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={path}",
    }
    hosts = {f"spark-0{at}": {"ansible_host": f"10.78.0.{at}"} for at in (1, 2)}
    inventory = tmp_path / "i.yml"
    inventory.write_text(json.dumps({"sparks": {"hosts": hosts, "vars": variables}}))
    typed = {"inventory": [str(inventory)], "fingerprint": _list_fingerprints(lab.known_hosts)}
    options = parse_options(TrustOptions, "hosts.trust", typed, whole_cluster=True)
    assert show_host_keys(options) == 0
    values = {"ansible_host": "10.78.0.2", **variables}
    host = Host(name="it", vars={name: Value(data=data) for name, data in values.items()})
    with connect_ssh(host) as link:
        assert link.run(Command(argv=("hostname",))).text == "spark-02\n"
    words = ["-F", "none", "-i", str(lab.key), "-o", f"UserKnownHostsFile={path}"]
    strict = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    subprocess.run(["ssh", *words, *strict, "nvidia@10.78.0.1", "true"], check=True)
