"""Fields of another type in the answers that describe a host: each is refused where it is read."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.facts import HostFacts
from sparkfleet.launch.deployment.drift import find_drift
from sparkfleet.launch.endpoint.correctness import check_answer, check_stream, check_tool_call
from sparkfleet.launch.endpoint.health import HealthLook, judge_health
from sparkfleet.launch.endpoint.health.observation import parse_host_look
from sparkfleet.launch.endpoint.health.ranks import format_since
from sparkfleet.launch.endpoint.replies import parse_reply
from sparkfleet.launch.endpoint.throughput import compute_throughput
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.installed_vllm import summarize_probe
from sparkfleet.launch.host.survey import parse_survey
from sparkfleet.launch.images.checks import check_image_contents, check_image_space
from sparkfleet.launch.images.plan import DistributePlan, plan_distribution
from sparkfleet.launch.preflight.available_memory import compute_available_memory
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.links.addressing.host_network import parse_host_network
from sparkfleet.recipes.metadata import SmokePrompt
from sparkfleet.remote.answers import SHAPE_ERRORS, parse_answer
from sparkfleet.weights.inspection import _parse_inspection
from tests.engines import settings
from tests.gb10 import pair

STORAGE: Any = None

IMAGE: dict[str, Any] = {
    "name": "vllm:1",
    "id": "sha256:x",
    "key": "k",
    "layers": ["a"],
    "digests": [],
    "size": 5,
    "environment": ["PATH=/bin"],
    "architecture": "arm64",
    "program": [],
    "probe": None,
}
DAEMON = {"info": {"ServerVersion": "28.1"}, "free": 10, "hook": True, "cdi": False}
SURVEY: dict[str, Any] = {
    "home": "/h",
    "folder": "/f",
    "files": {},
    "record": {"hash": "h", "roles": {}},
    "processes": [{"pid": 7, "began": 1, "command": "x"}],
    "engine": None,
    "daemon": DAEMON,
    "image": IMAGE,
}


@pytest.mark.parametrize(
    "change",
    [
        {"record": {"hash": 1, "roles": {}}},
        {"engine": [1]},
        {"processes": [{"pid": "7", "began": 1}]},
        {"user": 1},
        {"cache_filesystem": None},
        {"containers": [1]},
        {"daemon": DAEMON | {"free": "x"}},
        {"daemon": DAEMON | {"hook": "no"}},
        {"daemon": DAEMON | {"info": {"ServerVersion": 28}}},
        {"image": IMAGE | {"size": "x"}},
        {"image": IMAGE | {"key": None}},
        {"image": IMAGE | {"environment": [1]}},
    ],
)
def test_a_survey_holds_texts_and_counts(change: dict[str, Any]) -> None:
    survey = parse_survey(SURVEY, cli="docker")
    assert survey.image is not None
    assert (survey.image.size, survey.hash) == (5, "h")
    with pytest.raises(CommandError, match="has an unknown shape"):
        parse_answer(partial(parse_survey, cli="docker"), SURVEY | change, "spark-07", "x")


@pytest.mark.parametrize(
    "probe", [{"x": 1}, {"packages": 1}, [1], "x", {"packages": {}, "programs": [[]]}]
)
def test_a_damaged_record_of_an_inspection_is_read_as_none(probe: Any) -> None:
    survey = parse_survey(SURVEY | {"image": IMAGE | {"probe": probe}}, cli="docker")
    assert survey.image is not None
    assert survey.image.probe is None


LOOK: dict[str, Any] = {
    "folder": "/f",
    "record": {"hash": "h", "about": {"hosts": ["spark-07"]}},
    "apps": None,
    "apps_error": "",
    "endpoint": {"status": 200, "error": "", "limit": 5.0, "stall": 20.0, "samples": []},
    "rebooted": False,
    "last_boot": None,
    "roles": {},
    "processes": [],
    "containers": {},
    "gpu_state": "",
    "gpu_reasons": "",
    "rails": {},
    "compilers": [],
    "logs": {},
    "guard": None,
    "state": None,
    "busy": False,
}


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e300, "x"])
def test_a_look_holds_times_that_are_times(seconds: Any) -> None:
    assert parse_host_look(LOOK).hash == "h"
    log = LOOK | {"logs": {"serve": {"lines": [], "at": seconds}}}
    role = LOOK | {"roles": {"serve": {"pid": 7, "age": seconds}}}
    for answer in (log, role):
        with pytest.raises(CommandError, match="has an unknown shape"):
            parse_answer(parse_host_look, answer, "spark-07", "x")


def test_counters_that_are_not_finite_are_left_out() -> None:
    sample = {"at": 1.0, "vllm:num_requests_running": math.nan}
    look = parse_host_look(LOOK | {"endpoint": LOOK["endpoint"] | {"samples": [sample]}})
    assert look.endpoint is not None
    assert look.endpoint.samples == ({"at": 1.0},)


NETWORK: dict[str, Any] = {
    "files": {},
    "netplan": True,
    "devices": "",
    "routes": "[]",
    "addresses": "[]",
    "sysctls": {},
    "pending": "",
    "saved": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"/etc/netplan/a.yaml": None}},
        {"sysctls": {"a": 1}},
        {"saved": {"files": {"a": 1}, "rails": {}}},
        {"saved": {"files": {"a": None}, "rails": {"a": 1}}},
    ],
)
def test_a_network_holds_texts(change: dict[str, Any]) -> None:
    assert parse_host_network("spark-07", NETWORK, "").files == {}
    with pytest.raises(CommandError, match="has an unknown shape"):
        parse_answer(
            lambda said: parse_host_network("spark-07", said, ""), NETWORK | change, "spark-07", "x"
        )


@pytest.mark.parametrize("change", [{"began": None}, {"seconds": "x"}, {"status": [200]}])
def test_a_reply_holds_times_and_a_status(change: dict[str, Any]) -> None:
    reply = {"status": 200, "content": {}, "events": [], "began": 1.0, "seconds": 2.0}
    assert parse_reply(reply).seconds == 2.0
    with pytest.raises(CommandError, match="has an unknown shape"):
        parse_answer(parse_reply, reply | change, "spark-07", "x")


@pytest.mark.parametrize("at", [10**400, "x", None])
def test_an_event_at_no_time_is_not_part_of_an_answer(at: Any) -> None:
    events = [{"at": at, "data": "[DONE]"}]
    reply = parse_reply({"status": 200, "events": events, "began": 1.0, "seconds": 2.0})
    assert (reply.status, reply.error[:18]) == (0, "no chat completion")


def test_a_finding_is_about_a_file_of_the_model() -> None:
    finding = {"path": "config.json", "state": "missing", "seen": "nothing"}
    parser = partial(_parse_inspection, "spark-07", STORAGE, paths={"config.json"})
    answer = {"files": [finding], "hashed": 0}
    assert parser(answer).findings[0].path == "config.json"
    with pytest.raises(CommandError, match="expected a file of the model"):
        parse_answer(parser, {"files": [finding | {"path": "x"}], "hashed": 0}, "spark-07", "x")


ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1.5,
    1e300,
    math.nan,
    "9" * 5000,
    "x",
    "",
    [],
    [1],
    {},
    {"a": 1},
)
PROBE = {
    "packages": {"vllm": "0.32.0"},
    "programs": ["vllm", "bash", "nvidia-smi"],
    "nodes": True,
    "options": ["port"],
    "types": {"port": "int"},
    "values": {"load-format": ["auto"]},
    "variables": ["VLLM_PORT"],
    "nccl_conf": "A=1\n",
    "gpus": "GPU 0: NVIDIA GB10 (UUID: x)\n",
}
SAMPLE = {"at": 0.0, "vllm:num_requests_running": 1.0, "vllm:generation_tokens_total": 5.0}
EVENT = {"at": 0.5, "data": '{"choices": [{"delta": {"content": "x"}}]}'}


@functools.cache
def _read_facts() -> HostFacts:
    return pair()[0].facts()


def _use_survey(answer: Any) -> Callable[[], object]:
    survey = parse_survey(answer, cli="docker")
    facts = _read_facts()
    configured = settings(vllm_min_version="0.1")

    def use() -> None:
        check_hosts({"a": facts}, {"a": survey}, {"a": configured}, nodes=1)
        compute_available_memory(facts, survey, configured)
        find_drift(survey, {"nccl.env": "export A=1\n"}, DeploymentRecord(), "h2")
        plan_distribution({"a": survey}, {"a": configured})
        list(check_image_space({"a": survey}, {"a": DistributePlan(source="a")}))
        if survey.image is not None:
            list(check_image_contents(survey.image, configured, (), nodes=1))
        summarize_probe(survey.probe)

    return use


def _use_look(answer: Any) -> Callable[[], object]:
    look = parse_host_look(answer)

    def use() -> None:
        health = judge_health(HealthLook(hosts={"spark-07": look}))
        str((health, *map(format_since, health.ranks)))

    return use


def _use_reply(answer: Any) -> Callable[[], object]:
    reply = parse_reply(answer)
    question = SmokePrompt(ask="a", expect="b")
    return lambda: (
        check_answer(question, reply),
        check_stream(question, reply),
        check_tool_call(reply, "p"),
        compute_throughput([reply, reply]),
    )


USES: dict[str, tuple[Any, Callable[[Any], Callable[[], object]]]] = {
    "survey": (
        SURVEY
        | {
            "files": {"nccl.env": "export A=2\n"},
            "user": "1:1",
            "containers": [{"id": "x", "name": "n", "role": "serve", "state": "running"}],
            "image": IMAGE | {"probe": PROBE},
        },
        _use_survey,
    ),
    "look": (
        LOOK
        | {
            "endpoint": LOOK["endpoint"] | {"samples": [SAMPLE, SAMPLE | {"at": 30.0}]},
            "roles": {"serve": {"pid": 7, "age": None}},
            "processes": [{"pid": 7, "state": "S", "title": "VLLM::EngineCore"}],
            "logs": {"serve": {"lines": ["Running: 3 reqs"], "at": 1.0}},
        },
        _use_look,
    ),
    "reply": (
        {"status": 200, "content": None, "events": [EVENT], "began": 1.0, "seconds": 2.0},
        _use_reply,
    ),
}


def _list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each value in an answer."""
    if place:
        yield place
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield from _list_places(item, (*place, key))


def _put(answer: Any, place: tuple[Any, ...], odd: Any) -> Any:
    changed = copy.deepcopy(answer)
    *way, last = place
    inside = changed
    for key in way:
        inside = inside[key]
    inside[last] = odd
    return changed


@pytest.mark.parametrize("name", USES)
def test_each_odd_field_is_refused_where_it_is_read_or_can_be_used(name: str) -> None:
    answer, read = USES[name]
    read(answer)()
    for place in _list_places(answer):
        for odd in ODD_VALUES:
            try:
                use = read(_put(answer, place, odd))
            except SHAPE_ERRORS:
                continue
            use()
