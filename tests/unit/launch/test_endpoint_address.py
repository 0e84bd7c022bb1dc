"""The address on which the endpoint listens: its grammar, its checks, and where it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.launch.deployment.commands import _build_endpoint_options
from sparkfleet.launch.endpoint.endpoint import find_recorded_endpoint
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.host.deployment_record import parse_deployment_record
from sparkfleet.launch.preflight.endpoint_checks import check_endpoint_address, check_open_endpoint
from sparkfleet.model import Host, Value
from sparkfleet.onhost.deployment.health import find_endpoint_url
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.settings import Settings
from sparkfleet.variables import VARIABLES
from tests import gb10

SPARK = gb10.pair()[0]


def _settings(**variables: Any) -> Settings:
    values = {name: Value(data=value) for name, value in variables.items()}
    return Settings(host=Host(name=SPARK.name, vars=values))


@pytest.mark.parametrize("text", ["localhost", "::", "10.0.0", "10.0.0.1 --api-key=x", "", 1])
def test_a_listening_address_is_an_ipv4_address(text: Any) -> None:
    wrong = validate_value(VARIABLES["vllm_host"], text)
    assert wrong is not None
    assert wrong.startswith("expected ")


@pytest.mark.parametrize("address", [ALL_INTERFACES, "127.0.0.1", "192.168.100.1"])
def test_the_address_is_rendered(address: str) -> None:
    assert validate_value(VARIABLES["vllm_host"], address) is None
    assert _build_endpoint_options(_settings(vllm_host=address))[0] == f"--host={address}"


def test_all_interfaces_are_the_default() -> None:
    assert _build_endpoint_options(_settings())[0] == "--host=0.0.0.0"


@pytest.mark.parametrize("address", [ALL_INTERFACES, "127.0.0.1", "192.168.100.1"])
def test_an_address_of_the_head_passes(address: str) -> None:
    assert list(check_endpoint_address(_settings(vllm_host=address), SPARK.facts())) == []


def test_an_address_that_the_head_does_not_have_is_refused() -> None:
    (verdict,) = check_endpoint_address(_settings(vllm_host="10.9.9.9"), SPARK.facts())
    assert verdict.refuses
    assert "192.168.100.1" in verdict.expected
    assert verdict.seen == "10.9.9.9"


def test_an_endpoint_on_all_interfaces_without_a_key_is_warned_of() -> None:
    (verdict,) = check_open_endpoint(_settings())
    assert (verdict.check, str(verdict.severity)) == ("endpoint.open", "warning")
    assert "VLLM_API_KEY: {from_file: PATH}" in verdict.fix


@pytest.mark.parametrize(
    "variables",
    [
        {"vllm_host": "127.0.0.1"},
        {"vllm_host": "192.168.100.1"},
        {"vllm_env": {"VLLM_API_KEY": {"from_file": "key"}}},
    ],
)
def test_an_endpoint_with_a_key_or_on_one_address_is_not(variables: dict[str, Any]) -> None:
    assert list(check_open_endpoint(_settings(**variables))) == []


def test_a_key_that_is_unset_is_none() -> None:
    assert list(check_open_endpoint(_settings(vllm_env={"VLLM_API_KEY": None})))


@pytest.mark.parametrize(
    ("given", "local", "client"),
    [
        ({}, "http://127.0.0.1:8000", "http://spark-1:8000/v1"),
        ({"listens_on": ALL_INTERFACES}, "http://127.0.0.1:8000", "http://spark-1:8000/v1"),
        ({"listens_on": "10.0.0.1"}, "http://10.0.0.1:8000", "http://10.0.0.1:8000/v1"),
    ],
)
def test_an_endpoint_is_asked_where_it_listens(
    given: dict[str, str], local: str, client: str
) -> None:
    about = {"port": 8000, "hosts": ["a"], **given}
    record = parse_deployment_record(about)
    assert find_recorded_endpoint(record, "/f").url == local
    assert build_client_url(record.listens_on, record.port, "spark-1") == client
    assert find_endpoint_url({"about": about}, "a") == local
    assert find_endpoint_url({"about": about}, "b") is None
