"""Checks of one host that no engine changes, on recorded outputs."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.facts import HostFacts
from sparkfleet.facts.login import LINGER, LOGIND, USERS
from sparkfleet.launch.preflight.host_checks import check_host
from sparkfleet.model import Host, Severity, Value
from sparkfleet.recipes.settings import Settings
from tests import gb10
from tests.surveys import make_survey

SURVEY = make_survey(engine={})


def _found(facts: HostFacts, **own: Any) -> set[str]:
    values = {"engine_venv": "~/v", **own}
    host = Host(name="spark-1", vars={name: Value(data=data) for name, data in values.items()})
    verdicts = check_host(Settings(host=host), facts, SURVEY)
    return {verdict.check for verdict in verdicts if verdict.severity is not Severity.OK}


@pytest.mark.parametrize(
    ("configured", "lingering", "user", "warned"),
    [
        ("#RemoveIPC=yes", "", "nvidia", True),
        ("RemoveIPC=no", "", "nvidia", False),
        ("", "ubuntu\nnvidia", "nvidia", False),
        ("", "ubuntu", "nvidia", True),
        ("", "", "root", False),
    ],
)
def test_logind_removes_shared_memory_of_users_who_do_not_linger(
    configured: str, lingering: str, user: str, *, warned: bool
) -> None:
    spark = gb10.pair()[0].text(USERS, "1000").text(LOGIND, f"[Login]\n{configured}\n")
    facts = spark.text(LINGER, lingering).text("user", f"{user} /home").facts()
    assert ("host.linger" in _found(facts)) is warned


def test_containers_of_root_need_no_lingering_and_hosts_without_logind_neither() -> None:
    facts = gb10.pair()[0].text(USERS, "1000").facts()
    image: dict[str, Any] = {"engine_venv": None, "engine": "docker", "engine_image": "i"}
    assert "host.linger" not in _found(facts, **image)
    assert "host.linger" in _found(facts, **image, engine_user="host")
    assert "host.linger" not in _found(gb10.pair()[0].facts())
