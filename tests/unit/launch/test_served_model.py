"""The served model is the one recorded on the hosts."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.errors import LaunchError
from sparkfleet.launch.endpoint.served_model import find_served_model
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Host

HOSTS = {name: Host(name=name) for name in ("a", "b")}
SCRIPT = """#!/usr/bin/env bash
# Serves it's model
exec vllm serve /models/m \\
    --port=8001 \\
    --enable-auto-tool-choice \\
    --tool-call-parser hermes \\
    --reasoning-parser=qwen3
"""


def survey(**fields: Any) -> Survey:
    empty: dict[str, Any] = {"home": "/", "files": {}, "roles": {}, "dead": (), "processes": ()}
    about = DeploymentRecord(recipe="r", served_name="m", port=8001, hosts=("b", "a"), tp=2)
    default = {"folder": "/f", "hash": "h", "engine": None, "about": about}
    return Survey(**(empty | default | fields))


def test_the_host_of_rank_0_has_the_endpoint_and_its_options() -> None:
    found = find_served_model(HOSTS, {"a": survey(), "b": survey(files={"vllm-serve.sh": SCRIPT})})
    assert (found.head.name, found.endpoint.port, found.endpoint.folder) == ("b", 8001, "/f")
    assert found.options["tool-call-parser"] == "hermes"
    assert found.options["reasoning-parser"] == "qwen3"
    assert found.options["enable-auto-tool-choice"] is True


def test_nothing_is_served_where_nothing_was_started() -> None:
    with pytest.raises(LaunchError, match="the cluster serves no model"):
        find_served_model(HOSTS, {name: survey(hash=None) for name in HOSTS})


def test_a_script_that_no_shell_reads_is_named() -> None:
    damaged = survey(files={"vllm-serve.sh": SCRIPT.replace("hermes", "'hermes")})
    with pytest.raises(LaunchError, match=r"/f/vllm-serve\.sh is damaged: No closing") as refused:
        find_served_model(HOSTS, {"b": damaged})
    assert refused.value.host == "b"


def test_what_died_is_not_asked() -> None:
    with pytest.raises(LaunchError, match="serve died on b since"):
        find_served_model(HOSTS, {"a": survey(), "b": survey(dead=("serve",))})
