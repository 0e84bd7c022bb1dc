"""Two lab hosts: over SSH to one, over the fabric to the other, and what breaks on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.errors import HostError
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.plan import CONTROL
from sparkfleet.model import Host, Value
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.ssh import connect_ssh
from sparkfleet.weights import hub, layout
from sparkfleet.weights.inspection import inspect_weights
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.transfer import delivery, stage
from sparkfleet.weights.transfer.delivery import DeliveryReport
from sparkfleet.weights.transfer.progress import TransferCallback, TransferProgress, ignore_transfer
from sparkfleet.weights.transfer.routes import Ends
from sparkfleet.weights.transfer.sources import FolderSource, HubSource, WeightsSource
from tests.doubles.hub_server import HubServer
from tests.weights import bundle, files, isolate

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
ROOT = "~/vllm"
NAME = "org/gemma"


@dataclass(slots=True)
class Pair:
    """Two lab hosts and the links to them."""

    lab: LabFleet
    links: dict[str, Connection]

    def shared(self, sender: str, receiver: str) -> Ends:
        address = {host.name: host.rails[0].address for host in self.lab.hosts}
        return Ends(sender=address[sender], receiver=address[receiver])

    def stage(
        self, manifest: Manifest, source: WeightsSource, moved: TransferCallback = ignore_transfer
    ) -> DeliveryReport:
        seen = {name: inspect_weights(link, manifest, ROOT) for name, link in self.links.items()}
        plans = stage.plan_staging(manifest, seen)
        return delivery.deliver_model(
            self.links, plans, self.shared, source=source, on_progress=moved
        )

    def complete(self, manifest: Manifest) -> bool:
        return all(
            stage.verify_weights(link, manifest, ROOT, full=True)[-1].check == "weights.complete"
            for link in self.links.values()
        )

    def run(self, host: str, *argv: str) -> str:
        return self.links[host].run(Command(argv=argv)).text


def _host(lab: LabFleet, host: fleet.LabHost) -> Host:
    given = {
        "ansible_host": host.address,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.known_hosts}",
    }
    return Host(name=host.name, vars={name: Value(data=data) for name, data in given.items()})


@pytest.fixture
def pair(lab: LabFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    isolate(tmp_path, monkeypatch)
    pair = Pair(lab, {host.name: connect_ssh(_host(lab, host)) for host in lab.hosts})
    for name in pair.links:
        pair.run(name, "rm", "-rf", "vllm")
    yield pair
    for link in pair.links.values():
        link.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer(address=CONTROL) as running:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        running.add(NAME, files(1_500_000))
        yield running


def from_hub(manifest: Manifest) -> HubSource:
    return HubSource(url=hub.resolve_url(manifest))


def test_one_copy_goes_over_ssh_and_one_over_the_fabric(pair: Pair, tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    report = pair.stage(manifest, FolderSource(folder=source))
    assert [(one.leg.sender, one.leg.receiver) for one in report.carried] == [
        ("spark-01", "spark-02")
    ]
    assert report.sent("spark-01") == manifest.size
    assert pair.complete(manifest)
    again = pair.stage(manifest, FolderSource(folder=source))
    assert [landed.bytes for landed in again.landed.values()] == [0, 0]


def test_once_the_copy_runs_nothing_listens_any_more(pair: Pair, server: HubServer) -> None:
    manifest = hub.resolve_manifest(NAME)
    server.rate = 500_000
    before = listening("spark-01")
    during = list[set[str]]()

    def look(now: TransferProgress) -> None:
        if now.host == "spark-02" and now.done:
            during.append(listening("spark-01"))

    pair.stage(manifest, from_hub(manifest), look)
    assert during
    assert all(seen == before for seen in during)
    assert pair.complete(manifest)


def listening(host: str) -> set[str]:
    """Return the addresses and ports on which a host listens."""
    lines = fleet.run_on(host, ["ss", "-tlnH"]).stdout.splitlines()
    return {line.split()[3] for line in lines}


def test_a_cable_that_is_pulled_in_the_middle_ends_in_an_error_and_the_next_run_goes_on(
    pair: Pair, server: HubServer
) -> None:
    manifest = hub.resolve_manifest(NAME)
    server.rate = 300_000
    pulled: list[str] = []

    def pull(now: TransferProgress) -> None:
        if now.host == "spark-02" and now.done and not pulled:
            pulled.append(now.host)
            fleet.set_fault("spark-01", "link-down")

    try:
        with pytest.raises(HostError) as caught:
            pair.stage(manifest, from_hub(manifest), pull)
    finally:
        fleet.set_fault("spark-01", "link-down", clear=True)
    assert caught.value.host == "spark-02"
    server.rate = None
    report = pair.stage(manifest, from_hub(manifest))
    assert 0 < report.landed["spark-02"].bytes < manifest.size
    assert pair.complete(manifest)


def test_the_engine_finds_the_model_below_the_mounted_folder(pair: Pair, server: HubServer) -> None:
    manifest = hub.resolve_manifest(NAME)
    pair.stage(manifest, from_hub(manifest))
    links = pair.run("spark-02", "find", "vllm", "-type", "l", "-lname", "/*")
    assert links == ""  # an absolute link leads nowhere once ~/vllm is mounted at /models
    assert pair.run("spark-02", "cat", f"vllm/{layout.locate_ref(manifest)}") == manifest.commit


def test_a_killed_control_machine_leaves_no_program_on_the_hosts(
    pair: Pair, tmp_path: Path
) -> None:
    source, manifest = bundle(tmp_path, size=50_000_000)
    program = (
        "import sys\n"
        "from tests.fleet.test_weights_fleet import Pair, _host\n"
        "from pathlib import Path\n"
        "from sparkfleet.lab import fleet\n"
        "from sparkfleet.remote.ssh import connect_ssh\n"
        "from sparkfleet.weights.transfer.sources import FolderSource\n"
        "from sparkfleet.weights.manifest import build_folder_manifest\n"
        "lab = fleet.read_fleet()\n"
        "pair = Pair(lab, {host.name: connect_ssh(_host(lab, host)) for host in lab.hosts})\n"
        "source = Path(sys.argv[1])\n"
        "print('begin', flush=True)\n"
        "pair.stage(build_folder_manifest(source), FolderSource(folder=source),\n"
        "           lambda *_: print('moved', flush=True))\n"
    )
    words = [sys.executable, "-c", program, str(source)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    ) as control:
        assert control.stdout is not None
        assert control.stdout.readline() == b"begin\n"
        control.stdout.readline()
        control.kill()
    for name in pair.links:
        wait = 'for i in $(seq 100); do pgrep -f "onhost[.]weights" || exit 0; sleep 0.1; done'
        assert pair.links[name].run(Command(argv=("sh", "-c", wait))).returncode == 0
    pair.stage(manifest, FolderSource(folder=source))
    assert pair.complete(manifest)
