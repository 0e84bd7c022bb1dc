"""An answer of another shape is an error of the host that gave it, never a bug."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sparkfleet.actions.builtin.host_files import inspect_path
from sparkfleet.actions.builtin.user import _parse_missing_groups
from sparkfleet.actions.run import lock
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.facts.host import gather_facts
from sparkfleet.launch.endpoint.endpoint import Endpoint
from sparkfleet.launch.endpoint.health.probing import look_at_host
from sparkfleet.launch.gateway.host import list_gateway_models, look_at_gateway
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord, parse_deployment_record
from sparkfleet.launch.host.port_holders import parse_published_ports
from sparkfleet.launch.host.survey import parse_survey, survey_host
from sparkfleet.launch.host.vitals import compute_link_rate, query_vitals
from sparkfleet.launch.preflight import page_cache
from sparkfleet.launch.preflight.gpu_clock import measure_gpu_clock
from sparkfleet.launch.startup.join import wait_for_ray_nodes
from sparkfleet.launch.startup.start_watch import parse_report
from sparkfleet.links.addressing.host_network import parse_host_network
from sparkfleet.links.addressing.surveying import parse_differences, parse_trial, run_netconfig
from sparkfleet.links.bandwidth.collective import parse_rank_answer
from sparkfleet.model import Host
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import Channel, Result
from sparkfleet.remote.connection import Connection
from sparkfleet.weights.inspection import _parse_inspection, _parse_storage
from sparkfleet.weights.model_store import StoredModel, list_stored_models, remove_stored_model
from sparkfleet.weights.shapes import fetch_host_shape
from sparkfleet.weights.transfer.progress import _parse_result
from sparkfleet.weights.transfer.session import ProgramSession
from tests.budget import limit_cpu_time

HOST = Host(name="spark-07")
SETTINGS = Settings(host=HOST)
PLACE = {"cluster_dir": "/x", "cluster": "c"}
ODD: list[Any] = [
    {},
    {"a": 1},
    {"replies": []},
    dict.fromkeys(("facts", "files", "logs", "models", "stopped", "nodes", "replies", "holder"), 1),
    {"facts": [1], "files": [1], "logs": [1], "models": [1], "nodes": [1], "replies": [1]},
    {"files": {}, "processes": [1], "home": None, "folder": None, "engine": 1, "record": [1]},
    {"replies": [{}], "models": [{"commits": 3}], "held": "x", "stopped": None, "cli": []},
]
MEMORY = page_cache.UsedMemory(free=1, available=1, gpu={})
MODEL = StoredModel(folder="x", bytes=1, files=1, partial=0, commits=(), staged=True)


class LyingConnection(Connection):
    """A host that gives the same answer to everything."""

    def __init__(self, answer: Any) -> None:
        super().__init__(HOST)
        self._answer = json.dumps(answer).encode()

    def _start(self, command: Command) -> Channel:
        raise NotImplementedError

    def run(
        self,
        command: Command,
        *,
        payload: Iterable[bytes] = (),
        timeout: float = 0,
        hold: bool = False,
    ) -> Result:
        del command, payload, timeout, hold
        return Result(returncode=0, stdout=self._answer + b"\n", stderr="")


def _endpoint() -> Endpoint:
    return Endpoint(listens_on="", port=1, served_name="m", folder="/x")


ASKED: dict[str, Callable[[Connection], Any]] = {
    "facts": lambda link: gather_facts(link, weights_dir="~/vllm"),
    "survey": lambda link: survey_host(link, SETTINGS, "c"),
    "vitals": lambda link: query_vitals(link, PLACE, url=None),
    "health": lambda link: look_at_host(link, SETTINGS, "c"),
    "logs": lambda link: processes.read_logs(link, PLACE),
    "stop": lambda link: processes.stop_processes(link, PLACE),
    "start": lambda link: processes.start_process(link, PLACE, "serve", "s", hash_="h"),
    "models": lambda link: list_stored_models(link, "/x"),
    "memory": page_cache.inspect_memory,
    "reclaimed memory": lambda link: page_cache.wait_for_memory(link, MEMORY),
    "page cache": page_cache.drop_caches,
    "GPU clock": measure_gpu_clock,
    "collective": lambda link: link.query("fabric/collective", {}, parse_rank_answer),
    "text": lambda link: processes.read_host_text(link, "/x/config.json"),
    "shape": lambda link: fetch_host_shape(link, "/x"),
    "removal": lambda link: remove_stored_model(link, "/x", MODEL),
    "path": lambda link: inspect_path(link, "/x"),
    "groups": lambda link: link.query(
        "host/groups", {}, lambda said: _parse_missing_groups(said, ("docker",), "")
    ),
    "network": lambda link: run_netconfig(
        link, "root", {}, lambda said: parse_host_network("spark-07", said, "")
    ),
    "trial": lambda link: run_netconfig(link, "root", {}, parse_trial),
    "differences": lambda link: run_netconfig(link, "root", {}, parse_differences),
    "gateway": lambda link: look_at_gateway(link, SETTINGS),
    "models of the gateway": lambda link: list_gateway_models(link, bind="", port=1, key=""),
    "ray": lambda link: wait_for_ray_nodes(link, DeploymentRecord(), timeout=0),
    "unlock": lambda link: lock.fetch_lock_holder(link, SETTINGS, "c"),
    "chat": lambda link: _endpoint().post(link, {}, timeout=1),
    "question": lambda link: _endpoint().chat(link, "hi", tokens=1, timeout=1),
    "served models": lambda link: _endpoint().list_models(link),
}


@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("asked", ASKED)
def test_an_answer_of_another_shape_names_its_host(asked: str, answer: Any) -> None:
    with (
        limit_cpu_time(),
        pytest.raises(CommandError, match=r"of the .* program has an unknown shape") as caught,
    ):
        ASKED[asked](LyingConnection(answer))
    assert caught.value.host == "spark-07"
    assert caught.value.exit_code == 2


PARSERS: dict[str, Callable[[Any], Any]] = {
    "report of a start": lambda answer: parse_report(json.dumps(answer).encode()),
    "storage": _parse_storage,
    "files of a model": lambda answer: _parse_inspection("spark-07", STORAGE, answer, paths=()),
    "received files": lambda answer: _parse_result("spark-07", answer),
}
STORAGE: Any = None


@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("parsed", PARSERS)
def test_an_answer_of_another_shape_is_not_parsed(parsed: str, answer: Any) -> None:
    with pytest.raises(CommandError, match="has an unknown shape"):
        parse_answer(PARSERS[parsed], answer, "spark-07", "x")


class _Speaking:
    """A channel on which a program says some lines and ends."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines
        self.stderr = ""

    def feed(self, *_: Any) -> None:
        """Take what is sent to it."""

    def lines(self, **_: Any) -> list[bytes]:
        return list(self._lines)

    def wait(self) -> int:
        return 0

    def close(self) -> None:
        """End it."""


class _SpeakingConnection(LyingConnection):
    def __init__(self, *lines: bytes) -> None:
        super().__init__({})
        self._channel: Any = _Speaking(*lines)

    def open(self, command: Command, *, alone: bool = False) -> Any:
        del command, alone
        return self._channel


ODD_PROGRESS = (
    b'{"progress"',
    b'{"progress": 1}',
    b'{"progress": {"bytes": "x"}}',
    b'{"progress": {"bytes": -1}}',
    b'{"progress": {"port": 70000}}',
    b'{"progress": {}}',
    b'{"progress"' + b"[" * 90_000,
)


@pytest.mark.parametrize("line", ODD_PROGRESS, ids=range(len(ODD_PROGRESS)))
def test_odd_progress_of_a_transfer_names_its_host(line: bytes) -> None:
    session = ProgramSession(_SpeakingConnection(line), "weights/sender")
    with pytest.raises(CommandError, match="of the sender program has an unknown shape") as caught:
        session.wait_for_port()
    assert caught.value.host == "spark-07"


def test_a_transfer_that_ends_before_it_begins_names_its_host() -> None:
    session = ProgramSession(_SpeakingConnection(b"{}"), "weights/sender")
    with pytest.raises(CommandError, match="exited before it opened its port"):
        session.wait_for_port()


class _Says:
    def __init__(self, line: bytes) -> None:
        self._line = line
        self.stderr = ""

    def lines(self, *_: Any) -> list[bytes]:
        return [self._line]


@pytest.mark.parametrize(
    "line", [b"1", b"[1]", b"null", b"{}", b'{"held": 0}', b"noise", b"[" * 90_000, b'{"held": []}']
)
def test_an_answer_of_another_shape_to_a_lock_names_its_host(line: bytes) -> None:
    with pytest.raises(CommandError, match="of the lock program has an unknown shape") as caught:
        lock._read_lock_answer(_Says(line), 1, "spark-07")  # type: ignore[arg-type]  # a double
    assert caught.value.host == "spark-07"


def test_a_bug_outside_of_a_parser_stays_a_bug() -> None:
    def parser(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        parse_answer(parser, {}, "a", "p")


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", "1", "[" * 90_000])
def test_a_state_or_guard_of_another_shape_is_none(text: str) -> None:
    answer: dict[str, Any] = {
        "home": "/h",
        "folder": "/f",
        "processes": [],
        "record": None,
        "engine": None,
    }
    survey = parse_survey({**answer, "files": {"guard.json": text, "state.json": text}})
    assert (survey.guard, survey.state) == (None, None)


NINES = "9" * 400
VITALS: dict[str, Any] = {
    "meminfo": "MemTotal: 1000 kB\nMemAvailable: 5 kB\nMemFree: 5 kB\n",
    "apps": "pid, process_name, used_gpu_memory [MiB]\n7, x, 5 MiB\n",
    "ages": {"7": 1.0},
    "busy": False,
    "labels": [],
    "health": None,
    "samples": [],
    "gpu_state": "power.draw, temperature.gpu, clocks.sm\n1, 2, 3\n",
    "gpu_reasons": "",
    "traffic": [],
}
ODD_VITALS: dict[str, dict[str, Any]] = {
    "memory": {"meminfo": f"MemTotal: {NINES} kB\nMemAvailable: 1 kB\nMemFree: 1 kB\n"},
    "processes": {"apps": f"pid, process_name, used_gpu_memory [MiB]\n7, x, {NINES} MiB\n"},
    "long field": {"apps": f"pid, process_name\n7, {'x' * 200_000}\n"},
    "health": {"health": {"a": 1}},
    "samples": {"samples": [{"a": 1}, {"b": 2}]},
    "texts": {"samples": [{"at": "x"}, {"at": "y"}]},
    "huge": {"samples": [{"at": 0}, {"at": 1, "vllm:num_requests_running": int(NINES)}]},
    "infinite": {"samples": [{"at": 0}, {"at": 1, "vllm:num_requests_running": math.inf}]},
    "traffic": {"traffic": [{"at": at, "received": at * int(NINES), "sent": 1} for at in range(2)]},
}


@pytest.mark.parametrize("odd", ODD_VITALS)
def test_numbers_that_no_host_has_are_not_computed_with(odd: str) -> None:
    link = LyingConnection(VITALS | ODD_VITALS[odd])
    with limit_cpu_time(), contextlib.suppress(CommandError):
        vitals = query_vitals(link, PLACE, url=None)
        assert str(vitals.load)
        assert str(compute_link_rate(vitals.traffic))
        assert vitals.memory is None or format_memory(vitals.memory.total)
        assert all(float(process.memory or 0) >= 0 for process in vitals.gpu)


def test_published_ports_are_ports() -> None:
    with limit_cpu_time():
        ports = parse_published_ports("a\tb\t:1-99999->1-99999/tcp, :7-9999999999->7/tcp")
    assert max(ports) == 65535


ODD_RECORD = {
    "served_name": "a\nb",
    "aliases": ["x", 3],
    "listens_on": "203.0.113.1 backup",
    "port": "8000 check",
    "dp": -1,
    "hosts": "a",
    "ray_nodes": {"a": 1},
    "ready_timeout": 1e400,
    "python": ["\x1b[2J"],
    "weights": "w" * 5000,
    "later": object(),
}


def test_what_a_record_says_of_a_deployment_has_the_right_types() -> None:
    assert parse_deployment_record(ODD_RECORD) == DeploymentRecord()
    assert parse_deployment_record([1]) == DeploymentRecord()
    for name in ODD_RECORD.keys() - {"later"}:
        with pytest.raises(ValueError, match=r"xpected|permitted"):
            parse_deployment_record({name: ODD_RECORD[name]}, strict=True)


def test_a_host_adds_no_names_of_its_own_to_the_files_of_a_deployment() -> None:
    files = {"nccl.env": "a", "../../.ssh/authorized_keys": "b", "x\x1b[2J": "c"}
    answer: dict[str, Any] = {
        "home": "/h",
        "folder": "/f",
        "processes": [],
        "record": None,
        "engine": None,
    }
    assert parse_survey({**answer, "files": files}).files == {"nccl.env": "a"}


@pytest.mark.parametrize(
    "name", ["/x/a\n.log", "/x/\0.log", "/x/a\x1b[2J.log", "..", "/x/" + "a" * 300]
)
def test_the_name_of_a_log_is_a_file_name(name: str) -> None:
    with pytest.raises(CommandError, match="of the log program has an unknown shape"):
        processes.read_logs(LyingConnection({"logs": {name: "text"}}), PLACE)
