"""Checks of the address on which the endpoint listens, and of who may use it; pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from sparkfleet.facts import HostFacts
from sparkfleet.launch.endpoint.listening import API_KEY, has_api_key, is_loopback
from sparkfleet.model import Verdict
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import error, warning


def check_endpoint_address(settings: Settings, facts: HostFacts) -> Iterator[Verdict]:
    """Refuse a `vllm_host` that the head does not have: vLLM would end after it has loaded."""
    given = settings.text("vllm_host")
    known = sorted({str(address.ip) for dev in facts.netdevs for address in dev.addresses})
    if given == ALL_INTERFACES or is_loopback(given) or not known:
        return
    if facts.carrier_of(IPv4Address(given)) is None:
        yield error(
            "endpoint.address",
            facts.host,
            "vllm_host",
            expected=f"an address of this head: {', '.join(known)}",
            seen=given,
            source=str(settings.origin("vllm_host")),
            fix=f"set vllm_host to one of these, or to {ALL_INTERFACES} for all",
        )


def check_open_endpoint(settings: Settings) -> Iterator[Verdict]:
    """Warn where everybody who reaches any interface of the head could use the endpoint."""
    if settings.text("vllm_host") == ALL_INTERFACES and not has_api_key(settings):
        yield warning(
            "endpoint.open",
            settings.host.name,
            "endpoint",
            expected="an API key, or one address (vllm_host)",
            seen="a listener on all interfaces, without a key",
            source=f"vllm_host at {settings.origin('vllm_host')}",
            fix=f"keep a key in a file of mode 0600 and set vllm_env: {{{API_KEY}: "
            "{from_file: PATH}}, or set vllm_host to 127.0.0.1 or an address of the head",
        )
