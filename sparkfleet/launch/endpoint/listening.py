"""Sentences about what listens where, and who may use it; pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.settings import Settings

API_KEY = "VLLM_API_KEY"


def build_client_url(listens_on: str, port: int, address: str) -> str:
    """Return the base URL for clients of an endpoint on the host that is reached at `address`."""
    everywhere = listens_on in ("", ALL_INTERFACES)
    return f"http://{address if everywhere else listens_on}:{port}/v1"


def has_api_key(settings: Settings) -> bool:
    """Return whether the endpoint of this head asks its clients for a key."""
    return settings.mapping("vllm_env").get(API_KEY) is not None


def is_loopback(listens_on: str) -> bool:
    """Return whether an endpoint can be reached from its own host alone."""
    return IPv4Address(listens_on).is_loopback


def format_listeners(settings: Settings, *, ray: bool) -> Iterator[str]:
    """Yield a line for the endpoint of the head with `settings`, and one for Ray if it runs."""
    address = settings.text("vllm_host")
    access = (
        f"with an API key ({API_KEY})"
        if has_api_key(settings)
        else "without an API key: anyone who can reach it can use it"
    )
    port = settings.integer("vllm_port")
    if address == ALL_INTERFACES:
        yield f"listens on port {port} of every interface, {access}"
    elif is_loopback(address):
        yield f"listens on {address}:{port}, which only this head can reach, {access}"
    else:
        yield f"listens on {address}:{port}, {access}"
    if ray:
        yield (
            f"Ray listens on ports {_format_ray_ports(settings)} of every interface of each host; "
            "since 2.52 it asks for the deployment's token"
        )


def _format_ray_ports(settings: Settings) -> str:
    names = ("ray_port", "ray_node_manager_port", "ray_object_manager_port")
    ports = ", ".join(str(settings.integer(name)) for name in names)
    first, last = (settings.integer(f"ray_worker_port_{end}") for end in ("min", "max"))
    return f"{ports} and {first}-{last}"
