"""C46: a host wedged while profiling, with 22 GiB available, on kernel 7.0.0-1019."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.errors import UnreachableError
from sparkfleet.launch.engines.checks import check_container_engine
from sparkfleet.launch.preflight.host_checks import check_host
from sparkfleet.model import Host, Severity, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote import ping, sockets, ssh
from tests import gb10
from tests.engines import DOCKER, option, settings, words
from tests.ports import closed_port
from tests.surveys import make_survey

_SURVEY = make_survey(engine={})


def _warnings(kernel: str, **variables: Any) -> list[str]:
    facts = gb10.pair()[0].facts()
    facts = replace(facts, system=replace(facts.system, kernel=kernel))
    found = check_container_engine(settings(**variables), facts, DOCKER)
    return [str(one) for one in found if one.severity is Severity.WARNING]


@pytest.mark.parametrize("kernel", ["7.0.0-1019-nvidia", "7.0.0-1019-nvidia-64k"])
def test_that_kernel_is_warned_about(kernel: str) -> None:
    (text,) = _warnings(kernel)
    assert kernel in text
    assert "engine_memory" in text
    assert "answers ping but not SSH" in text


@pytest.mark.parametrize("kernel", ["6.17.0-1021-nvidia", "7.0.0-1020-nvidia", ""])
def test_other_kernels_are_not(kernel: str) -> None:
    assert _warnings(kernel) == []


def test_a_cap_is_given_to_every_container_and_ends_the_warning() -> None:
    assert option(words(engine_memory="110GiB"), "memory") == [str(110 << 30)]
    assert _warnings("7.0.0-1019-nvidia", engine_memory="110GiB") == []


def test_that_kernel_is_warned_about_where_no_container_can_be_capped() -> None:
    facts = gb10.pair()[0].facts()
    facts = replace(facts, system=replace(facts.system, kernel="7.0.0-1019-nvidia"))
    native = Settings(host=Host(name="spark-1", vars={"engine_venv": Value(data="/v")}))
    (verdict,) = (one for one in check_host(native, facts, _SURVEY) if one.check == "host.kernel")
    assert verdict.severity is Severity.WARNING
    assert "guard_loading: 8GiB" in verdict.fix


@pytest.mark.skipif(shutil.which("ping") is None, reason="the note needs ping")
def test_a_host_whose_ssh_is_silent_while_it_answers_pings_is_distinguished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (ssh, sockets):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = {"ansible_host": "127.0.0.1", "ansible_port": silent.getsockname()[1]}
        host = Host(name="spark-1", vars={name: Value(data=data) for name, data in address.items()})
        with pytest.raises(UnreachableError, match="though the machine answers a ping") as caught:
            ssh.connect_ssh(host)
    assert "out of memory" in str(caught.value.hint)


def test_a_host_that_refuses_is_not_taken_for_one_that_is_starved() -> None:
    with closed_port() as port:
        address = {"ansible_host": "127.0.0.1", "ansible_port": port}
        host = Host(name="spark-1", vars={name: Value(data=data) for name, data in address.items()})
        with pytest.raises(UnreachableError, match="Connection refused"):
            ssh.connect_ssh(host)


@pytest.mark.skipif(shutil.which("ping") is None, reason="the note needs ping")
def test_what_to_do_about_a_silent_host_depends_on_whether_it_is_there() -> None:
    assert ping.suggest_recovery("127.0.0.1").startswith(
        "it answers a ping: it may be out of memory"
    )
    assert (
        ping.suggest_recovery("no-such-host.invalid") == "is it up? try: ping no-such-host.invalid"
    )
