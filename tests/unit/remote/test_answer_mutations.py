"""Answers of this machine with parts changed: read, or an error that names the host."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sparkfleet.actions.run import lock
from sparkfleet.cli.hosts.facts import serialize_facts
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.facts.host import gather_facts
from sparkfleet.launch.endpoint.health.probing import look_at_host
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.launch.host.vitals import query_vitals
from sparkfleet.launch.watching.events import read_event_log
from sparkfleet.links.addressing.surveying import read_wires
from sparkfleet.model import Host, Value
from sparkfleet.onhost.shared.deployment_record import read_boot_id
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.channel import Result
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.model_store import list_stored_models
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, mutate_tree

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(7200)]
CLUSTER = "c"
ABOUT = {"model": "m", "port": 8000, "hosts": ["a"], "tp": 2, "executor": "ray"}
ROLES = {"serve": {"pid": 1, "began": 1}}


class RecordingConnection(LocalConnection):
    """A connection to this machine that keeps the answers."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.answers: list[Any] = []

    def run(self, command: Command, **options: Any) -> Result:
        result = super().run(command, **options)
        with contextlib.suppress(ValueError):
            self.answers.append(json.loads(result.stdout))
        return result


class ReplayingConnection(Connection):
    """A host that gives one answer after the other, and the last one again."""

    def __init__(self, host: Host, answers: Iterable[Any]) -> None:
        super().__init__(host)
        self._answers = [json.dumps(answer).encode() + b"\n" for answer in answers]

    def _start(self, command: Command) -> Any:
        raise NotImplementedError

    def run(self, command: Command, **options: Any) -> Result:
        del command, options
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return Result(returncode=0, stdout=answer, stderr="")


def _locate(link: Connection) -> dict[str, str]:
    return processes.locate_deployment(Settings(host=link.host), CLUSTER)


def _read_facts(link: Connection) -> str:
    return json.dumps(serialize_facts(gather_facts(link, weights_dir="~")), default=str)


ASKED: dict[str, Callable[[Connection], object]] = {
    "facts": _read_facts,
    "survey": lambda link: survey_host(link, Settings(host=link.host), CLUSTER),
    "vitals": lambda link: query_vitals(link, _locate(link), url=None),
    "health": lambda link: look_at_host(link, Settings(host=link.host), CLUSTER),
    "logs": lambda link: processes.read_logs(link, _locate(link)),
    "events": lambda link: read_event_log(link, _locate(link)),
    "models": lambda link: list_stored_models(link, Settings(host=link.host).text("weights_dir")),
    "wires": lambda link: read_wires(link, ("lo",)),
    "holder": lambda link: lock.fetch_lock_holder(link, Settings(host=link.host), CLUSTER),
}


def _create_host(root: Path) -> Host:
    folders = {"cluster_dir": str(root), "weights_dir": str(root)}
    variables = {name: Value(data=data) for name, data in {**folders, "engine": "native"}.items()}
    return Host(name="spark-07", vars=variables)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return what this machine answers about a folder with a deployment."""
    root = tmp_path_factory.mktemp("deployments")
    folder = root / CLUSTER
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "serve.log").write_text("INFO ready\n")
    (folder / "nccl.env").write_text("export A='1'\n")
    (folder / "deployment.json").write_text(
        json.dumps({"hash": "0" * 64, "boot": read_boot_id(), "about": ABOUT, "roles": ROLES})
    )
    (folder / "guard.json").write_text('{"pid": 1, "began": 2, "limit": 3}')
    (folder / "events.jsonl").write_text('{"kind": "stopped", "at": 5.0, "text": "x"}\n')
    found: dict[str, list[Any]] = {}
    for name, ask in ASKED.items():
        with contextlib.closing(RecordingConnection(_create_host(root))) as link:
            ask(link)
            found[name] = link.answers
    return found


@settings(
    max_examples=scale_examples(20, thorough=MANY),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(number=NUMBERS)
def test_a_changed_answer_is_read_or_names_its_host(
    seeds: dict[str, list[Any]], tmp_path: Path, number: int
) -> None:
    chance = create_chance(number)
    name = chance.choice(list(ASKED))
    answers = copy.deepcopy(seeds[name])
    assert answers, name
    changed = [answer for known in seeds.values() for answer in known]
    at = chance.randrange(len(answers))
    answers[at] = mutate_tree(chance, answers[at], changed)
    link = ReplayingConnection(_create_host(tmp_path), answers)
    with limit_cpu_time(), contextlib.suppress(CommandError):
        str(ASKED[name](link))
