"""A setting that a check before a start names is set as its fix says, and the check runs again."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Listener, Memory
from sparkfleet.launch import images, preflight
from sparkfleet.launch.engines.checks import check_container_engine
from sparkfleet.launch.images.checks import (
    check_image_contents,
    check_missing_images,
    check_unequal_images,
)
from sparkfleet.launch.preflight.endpoint_checks import check_endpoint_address, check_open_endpoint
from sparkfleet.launch.preflight.host_checks import check_host
from sparkfleet.launch.preflight.port_checks import check_free_ports
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.model import Severity, Verdict
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.variables import VARIABLES
from tests import gb10
from tests.engines import DOCKER, IMAGE, WITH_IMAGE, settings, survey

GIB = 1 << 30
HANGING_KERNEL = "7.0.0-1019-nvidia"
NATIVE: dict[str, Any] = {"engine": "native", "engine_venv": "~/v", "engine_image": None}
MEMORY = Memory(total=121 * GIB, free=10 * GIB, available=118 * GIB)


def _facts(**changes: Any) -> HostFacts:
    return replace(gb10.pair()[0].facts(), **changes)


def _with_kernel(kernel: str) -> HostFacts:
    facts = _facts()
    return replace(facts, system=replace(facts.system, kernel=kernel))


def _check_host(facts: HostFacts, **variables: Any) -> Iterable[Verdict]:
    return check_host(settings(**variables), facts, survey())


def _check_engine(facts: HostFacts, **variables: Any) -> Iterable[Verdict]:
    return check_container_engine(settings(**variables), facts, DOCKER)


def _check_image(**changes: Any) -> Callable[..., Iterable[Verdict]]:
    def check(_: HostFacts, **variables: Any) -> Iterable[Verdict]:
        image = replace(WITH_IMAGE, **changes)
        own = settings(**variables)
        return check_image_contents(image, own, own.mapping("nccl_env"), nodes=1)

    return check


def _check_images(_: HostFacts, **variables: Any) -> Iterable[Verdict]:
    """Check hosts of which the second lacks the image, and the third has another one."""
    other = replace(WITH_IMAGE, key="other", layers=("sha256:z",), digests=("vllm@sha256:d2",))
    bare = survey(image=None, base=None, image_name=IMAGE)
    surveys = {"spark-1": survey(), "spark-2": bare, "spark-3": survey(image=other)}
    own = {name: settings(name, **variables) for name in surveys}
    yield from check_missing_images(surveys, own)
    yield from check_unequal_images(surveys, own)


def _check_endpoint(facts: HostFacts, **variables: Any) -> Iterable[Verdict]:
    yield from check_endpoint_address(settings(**variables), facts)
    yield from check_open_endpoint(settings(**variables))


def _check_ports(facts: HostFacts, **variables: Any) -> Iterable[Verdict]:
    own = settings(**variables)
    return check_free_ports(facts, survey(), {own.integer("vllm_port"): "vllm_port"})


def _check_engines(_: HostFacts, *, engine: str) -> Iterable[Verdict]:
    """Check a head with Docker and a worker with another engine."""
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    own = {"spark-1": settings("spark-1"), "spark-2": settings("spark-2", engine=engine)}
    return check_hosts(facts, {name: survey() for name in facts}, own, nodes=2)


TAKEN = Listener(address=IPv4Address("127.0.0.1"), port=8000, user="root", inode="7")
CONF = _check_image(
    probe=replace(WITH_IMAGE.probe, nccl_conf="NCCL_DEBUG=INFO") if WITH_IMAGE.probe else None
)
BAKED = _check_image(environment={"NCCL_IB_HCA": "mlx5_0"})
OPEN = {"vllm_host": ALL_INTERFACES}
Settings = dict[str, Any]
# check, variable that its fix names, the check, facts, settings before, settings after
CASES: tuple[
    tuple[str, str, Callable[..., Iterable[Verdict]], HostFacts, Settings, Settings], ...
] = (
    (
        "host.kernel",
        "guard_loading",
        _check_host,
        _with_kernel(HANGING_KERNEL),
        NATIVE,
        {**NATIVE, "guard_loading": "8GiB"},
    ),
    (
        "engine.memory",
        "engine_memory",
        _check_engine,
        _with_kernel(HANGING_KERNEL),
        {},
        {"engine_memory": "110GiB"},
    ),
    (
        "engine.shm",
        "16GiB",
        _check_engine,
        _facts(memory=MEMORY),
        {"engine_shm_size": "64GiB"},
        {"engine_shm_size": "16GiB"},
    ),
    (
        "engine.user",
        "engine_user",
        _check_engine,
        _facts(),
        {"engine_user": "1234:1234"},
        {"engine_user": "host"},
    ),
    ("engine.cgroups", "engine_gpus", _check_engine, _facts(), {}, {"engine_gpus": "cdi"}),
    (
        "engine.baked",
        "nccl_env",
        BAKED,
        _facts(),
        {},
        {"nccl_env": {"NCCL_IB_HCA": None}},
    ),
    (
        "engine.nccl_conf",
        "engine_mounts",
        CONF,
        _facts(),
        {},
        {"engine_mounts": ["/dev/null:/etc/nccl.conf:ro"]},
    ),
    (
        "endpoint.address",
        "vllm_host",
        _check_endpoint,
        _facts(),
        {"vllm_host": "10.0.0.9"},
        {"vllm_host": "192.168.1.1"},
    ),
    ("endpoint.open", "vllm_host", _check_endpoint, _facts(), OPEN, {"vllm_host": "127.0.0.1"}),
    (
        "endpoint.open",
        "vllm_env",
        _check_endpoint,
        _facts(),
        OPEN,
        {**OPEN, "vllm_env": {"VLLM_API_KEY": {"from_file": "key"}}},
    ),
    (
        "host.port",
        "vllm_port",
        _check_ports,
        _facts(listeners=(TAKEN,)),
        {},
        {"vllm_port": 8001},
    ),
    *(
        (
            check,
            "engine_image_source",
            _check_images,
            _facts(),
            {"engine_image_source": "none"},
            {"engine_image_source": "copy"},
        )
        for check in ("image.present", "image.same")
    ),
    ("engine.same", "engine", _check_engines, _facts(), {"engine": "podman"}, {"engine": "docker"}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_setting_what_a_fix_names_ends_its_check(case: Any) -> None:
    check, name, judge, facts, before, after = case
    fired = [x for x in judge(facts, **before) if x.check == check]
    assert fired
    assert all(name in verdict.fix for verdict in fired)
    assert not [
        x for x in judge(facts, **after) if x.check == check and x.severity is not Severity.OK
    ]


def test_emptying_the_page_cache_is_then_only_noted() -> None:
    own = {"vllm_args": {"gpu-memory-utilization": 0.9}}
    facts = _facts(memory=MEMORY)
    (verdict,) = [x for x in _check_host(facts, **own) if x.check == "host.page_cache"]
    assert verdict.severity is Severity.WARNING
    assert "set drop_caches: true" in verdict.fix
    (noted,) = [
        x for x in _check_host(facts, **own, drop_caches=True) if x.check == "host.page_cache"
    ]
    assert noted.severity is Severity.INFO
    emptied = _facts(memory=replace(MEMORY, free=116 * GIB))  # what the command does
    assert [x for x in _check_host(emptied, **own) if x.check == "host.page_cache"] == []


def test_every_setting_that_a_check_before_a_start_names_is_applied_here() -> None:
    """A new fix that names a variable of the inventory needs a case above."""
    named: set[str] = set()
    files = [
        *Path(str(preflight.__file__)).parent.glob("*checks.py"),
        Path(str(images.__file__)).parent / "checks.py",
        Path(str(images.__file__)).parents[1] / "engines/checks.py",
    ]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "fix":
                words = {
                    word
                    for text in ast.walk(node.value)
                    if isinstance(text, ast.Constant) and isinstance(text.value, str)
                    for word in re.findall(r"\w+_\w+", text.value)
                }
                named |= words & set(VARIABLES)
    elsewhere = {"drop_caches", "engine_pip"}  # the second in tests/fleet/test_containers.py
    assert named - {name for _, name, *_ in CASES} - elsewhere == set()
