"""Times a copy of a model between two lab hosts: sparkfleet, rsync over ssh, and HTTP sendfile.

Run it as root while a lab of two hosts is up: ``python benchmarks/staging.py [--rounds N]``. In a
lab of more (``invoke lab.up --hosts 8 --cables switch``) it compares a copy to one host with a copy
to all, over links so slow that two cores are enough for eight hosts. All three move the same files
between the same hosts in the same run; sparkfleet hashes them on arrival, and its time runs from
the plan to the last file's name in place. The targets: 3x of rsync for large files and 1.5x for
small ones, 0.75 of plain sendfile; a download and its fan-out together at most 1.15 of the slower
of the two.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkfleet.commands import Command
from sparkfleet.lab import fleet
from sparkfleet.lab.plan import CONTROL
from sparkfleet.model import Host, Value
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.ssh import connect_ssh
from sparkfleet.weights.inspection import inspect_weights
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.transfer import delivery, sources, stage
from sparkfleet.weights.transfer.routes import Ends
from tests.doubles.hub_server import HubServer

ROOT = "/tmp/staging-benchmark"  # noqa: S108 - in a lab host, of its own user
PORT = 18080
WIDTHS = {"sparkfleet": 10, "rsync": 9, "sendfile": 9}  # of the columns
OF_SENDFILE = 0.75
OVERLAP = 1.15
OF_PAIR = 1.5  # the seconds of a copy to all hosts, over those of a copy to one
SLOW = "400mbit"
SHAPE = (
    'tc qdisc replace dev "$1" root handle 1: htb default 1;'
    ' tc class replace dev "$1" parent 1: classid 1:1 htb rate "$2"'
)
PARTS = 4  # files of the download
PART = 100_000_000  # bytes of each
RATE = 25e6  # bytes/s that the lab's Hub gives each connection

MAKE = """
import hashlib, json, os, sys
folder, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(folder)
block = os.urandom(1 << 20)
for number in range(count):
    head = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    name, state = "shard-%05d.safetensors" % number, hashlib.sha256()
    with open(os.path.join(folder, name), "wb") as file:
        pieces = [len(head).to_bytes(8, "little") + head + number.to_bytes(8, "little")]
        left = size - 8
        while left:
            pieces.append(block[:left])
            left -= len(pieces[-1])
            for piece in pieces:
                file.write(piece)
                state.update(piece)
            pieces = []
    print(name, os.path.getsize(os.path.join(folder, name)), state.hexdigest())
"""

HTTP_SERVER = """
import http.server, os, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with open(sys.argv[2] + self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.flush()
            at = 0
            while at < size:
                at += os.sendfile(self.connection.fileno(), file.fileno(), at, size - at)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[3])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""

HTTP_CLIENT = """
import http.client, os, sys
address, port, folder, *names = sys.argv[1:]
os.makedirs(folder)
connection = http.client.HTTPConnection(address, int(port))
buffer = memoryview(bytearray(1 << 20))
for name in names:
    connection.request("GET", "/" + name)
    reply = connection.getresponse()
    with open(os.path.join(folder, name), "wb", buffering=0) as file:
        while True:
            count = reply.readinto(buffer)
            if not count:
                break
            file.write(buffer[:count])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A number of files of one size, and how much faster than rsync sparkfleet must be."""

    title: str
    count: int
    size: int
    over_rsync: float


CASES = (
    Case(title="1 x 4 GiB", count=1, size=4 << 30, over_rsync=3.0),
    Case(title="4 x 1 GiB", count=4, size=1 << 30, over_rsync=3.0),
    Case(title="2000 x 20 kB", count=2000, size=20_000, over_rsync=1.5),
)


class Lab:
    """Two lab hosts, and the three ways between them."""

    def __init__(self, running: fleet.LabFleet) -> None:
        self.running = running
        self.one, self.two = running.hosts[:2]
        self.links: dict[str, Connection] = {
            host.name: connect_ssh(_host(running, host)) for host in (self.one, self.two)
        }
        self.ends = Ends(sender=self.one.rails[0].address, receiver=self.two.rails[0].address)

    def run(self, host: fleet.LabHost, *argv: str, timeout: float = 600) -> str:
        """Run a command on a host and return what it said."""
        result = self.links[host.name].run(Command(argv=argv), timeout=timeout)
        if result.returncode:
            sys.exit(f"{host.name}: {argv[0]} failed: {result.stderr}")
        return result.text

    def clear(self, *hosts: fleet.LabHost) -> None:
        """Remove what earlier rounds left."""
        for host in hosts:
            self.run(host, "rm", "-rf", ROOT)

    def warm(self, size: int) -> None:
        """Touch as much memory as the copy will fill: a virtual machine pays for its first use."""
        fill = 'head -c "$1" /dev/zero > "$2" && rm "$2"'
        self.run(self.two, "sh", "-c", fill, "sh", str(size), f"{ROOT}.warm")

    def make(self, case: Case) -> Manifest:
        """Write the files of `case` on the first host."""
        self.clear(self.one, self.two)
        text = self.run(
            self.one, "python3", "-c", MAKE, f"{ROOT}/model", str(case.count), str(case.size)
        )
        rows = [line.split() for line in text.splitlines()]
        files = (ModelFile(path=name, size=int(size), sha256=known) for name, size, known in rows)
        return Manifest(name="model", files=tuple(files))

    def ours(self, manifest: Manifest) -> float:
        """Stage from the first host to the second; return the seconds."""
        seen = {name: inspect_weights(link, manifest, ROOT) for name, link in self.links.items()}
        plans = stage.plan_staging(manifest, seen)
        start = time.perf_counter()
        report = delivery.deliver_model(self.links, plans, lambda _one, _two: self.ends)
        took = time.perf_counter() - start
        assert report.landed[self.two.name].bytes == manifest.size
        return took

    def rsync(self, _: Manifest) -> float:
        """Copy by rsync over ssh with its best cipher; return the seconds."""
        shell = (
            f"ssh -c aes128-gcm@openssh.com -i {ROOT}.key -o HostKeyAlias={self.two.name}"
            f" -o UserKnownHostsFile={ROOT}.known_hosts"
        )
        target = f"nvidia@{self.ends.receiver}:{ROOT}/"
        self.run(self.two, "mkdir", "-p", ROOT)
        start = time.perf_counter()
        self.run(self.one, "rsync", "-a", "--whole-file", "-e", shell, f"{ROOT}/model", target)
        return time.perf_counter() - start

    def sendfile(self, manifest: Manifest) -> float:
        """Copy by HTTP GETs on one connection, unhashed; return the seconds."""
        server = self.links[self.one.name].open(
            Command(
                argv=(
                    "timeout",
                    "120",
                    "python3",
                    "-c",
                    HTTP_SERVER,
                    self.ends.sender,
                    f"{ROOT}/model",
                    str(PORT),
                )
            )
        )
        time.sleep(0.5)
        names = [file.path for file in manifest.files]
        start = time.perf_counter()
        self.run(
            self.two,
            "python3",
            "-c",
            HTTP_CLIENT,
            self.ends.sender,
            str(PORT),
            f"{ROOT}/model",
            *names,
        )
        took = time.perf_counter() - start
        server.close()
        return took

    def prepare(self) -> None:
        """Let the first host log in to the second, for rsync."""
        for source, name in (
            (self.running.key, ".key"),
            (self.running.known_hosts, ".known_hosts"),
        ):
            program = (
                "import os,sys;os.umask(0o77);open(sys.argv[1],'wb').write(sys.stdin.buffer.read())"
            )
            command = Command(
                argv=("python3", "-c", program, ROOT + name), stdin=source.read_bytes()
            )
            self.links[self.one.name].run(command)


def _host(running: fleet.LabFleet, host: fleet.LabHost) -> Host:
    given = {
        "ansible_host": host.address,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(running.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={running.known_hosts}",
    }
    return Host(name=host.name, vars={name: Value(data=data) for name, data in given.items()})


def measure(lab: Lab, case: Case, rounds: int) -> Mapping[str, float]:
    """Return the MB/s of each way, the median of `rounds`."""
    manifest = lab.make(case)
    ways: Mapping[str, Callable[[Manifest], float]] = {
        "sparkfleet": lab.ours,
        "rsync": lab.rsync,
        "sendfile": lab.sendfile,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            lab.clear(lab.two)
            lab.warm(manifest.size)
            times[name].append(way(manifest))
    return {name: manifest.size / statistics.median(took) / 1e6 for name, took in times.items()}


def overlap(lab: Lab) -> Mapping[str, float]:
    """Return the seconds of a download to one host, of its fan-out, and of both at once."""
    head = b'{"w": {"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]}}' % (PART, PART)
    body = len(head).to_bytes(8, "little") + head + os.urandom(PART)
    with HubServer(address=CONTROL, rate=RATE) as server:
        names = [f"shard-{number}.safetensors" for number in range(PARTS)]
        commit = server.add("org/model", {name: body + name.encode() for name in names})
        files = tuple(
            ModelFile(path=entry.path, size=len(entry.body), sha256=entry.etag)
            for entry in server.repositories["org/model"].entries.values()
        )
        manifest = Manifest(name="org/model", commit=commit, files=files)
        source = sources.HubSource(url=f"{server.url}/org/model/resolve/{commit}/")
        one = {lab.one.name: lab.links[lab.one.name]}
        times = {}
        for title, links in (("download", one), ("fan-out", lab.links), ("both", lab.links)):
            if title != "fan-out":
                lab.clear(lab.one, lab.two)
            lab.warm(manifest.size)
            plans = stage.plan_staging(
                manifest, {n: inspect_weights(k, manifest, ROOT) for n, k in links.items()}
            )
            start = time.perf_counter()
            delivery.deliver_model(links, plans, lambda _one, _two: lab.ends, source=source)
            times[title] = time.perf_counter() - start
    return times


def chain(lab: Lab) -> int:
    """Print how long a copy to one host takes and how long one to all; return 1 if too long."""
    manifest = lab.make(Case(title="chain", count=8, size=25_000_000, over_rsync=0))
    first = lab.one
    rails = {host.name: host.rails[0] for host in lab.running.hosts}

    def ends(sender: str, receiver: str) -> Ends:
        return Ends(sender=rails[sender].address, receiver=rails[receiver].address)

    for host in lab.running.hosts:
        fleet.run_on(host.name, ["sh", "-ec", SHAPE, "sh", rails[host.name].interface, SLOW])
    times = []
    for count in (2, len(lab.running.hosts)):
        chosen = lab.running.hosts[:count]
        links = {host.name: connect_ssh(_host(lab.running, host)) for host in chosen}
        lab.links.update(links)
        lab.clear(*(host for host in chosen if host is not first))
        plans = stage.plan_staging(
            manifest, {n: inspect_weights(k, manifest, ROOT) for n, k in links.items()}
        )
        start = time.perf_counter()
        report = delivery.deliver_model(links, plans, ends)
        times.append(time.perf_counter() - start)
        copies = [report.sent(host.name) / manifest.size for host in chosen]
        print(f"{count} hosts: {times[-1]:.2f} s, none sent more than {max(copies):.2f} copies")
    lab.clear(*lab.running.hosts)
    ratio = times[1] / times[0]
    met = ratio <= OF_PAIR
    print(f"{ratio:.2f} of a copy to one host ({'met' if met else 'MISSED'})")
    return 0 if met else 1


def main() -> int:
    """Print a line a case, and return 1 if one misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", type=int, choices=range(len(CASES)), action="append")
    options = parser.parse_args()
    running = fleet.read_fleet()
    if running is None or len(running.hosts) < 2:
        sys.exit("no lab of two hosts runs: invoke lab.up")
    lab = Lab(running)
    if len(running.hosts) > 2:
        return chain(lab)
    lab.prepare()
    missed = 0
    print(
        f"{'files':14} " + " ".join(f"{way:>{width}}" for way, width in WIDTHS.items()) + "   MB/s"
    )
    for number in options.case or range(len(CASES)):
        case = CASES[number]
        speed = measure(lab, case, options.rounds)
        over_rsync = speed["sparkfleet"] / speed["rsync"]
        of_sendfile = speed["sparkfleet"] / speed["sendfile"]
        met = over_rsync >= case.over_rsync and of_sendfile >= OF_SENDFILE
        missed += not met
        figures = " ".join(f"{speed[way]:{width}.0f}" for way, width in WIDTHS.items())
        print(
            f"{case.title:14} {figures}   {over_rsync:.1f}x rsync, {of_sendfile:.2f} of sendfile"
            f" ({'met' if met else 'MISSED'})",
            flush=True,
        )
    if not options.case:
        times = overlap(lab)
        slower = max(times["download"], times["fan-out"])
        met = times["both"] <= OVERLAP * slower
        missed += not met
        figures = ", ".join(f"{title} {took:.2f} s" for title, took in times.items())
        print(
            f"{figures}: {times['both'] / slower:.2f} of the slower ({'met' if met else 'MISSED'})"
        )
    lab.clear(lab.one, lab.two)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
