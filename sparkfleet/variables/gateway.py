"""`gateway` of the inventory: one address for the models of all clusters."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.spelling import did_you_mean
from sparkfleet.values import (
    convert_duration,
    convert_integer,
    convert_ipv4_address,
    convert_mapping,
    convert_size,
    convert_text,
)
from sparkfleet.variables.variable import Kind, Variable

GATEWAY = "gateway"  # its folder and label on its host too, as a cluster has them
# What a model may be called: HAProxy's maps end a name at a blank, and messages quote it.
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
MODEL_RULE = "letters, digits and . _ : / @ + -, at most 200, the first a letter or a digit"
KIB = 1 << 10
MIN_BODY = 64 * KIB
MAX_BODY = 128 << 20  # bytes; HAProxy refuses buffers of 256 MiB
MIN_TIMEOUT = 60.0  # seconds

ROWS = (
    Variable(
        name=GATEWAY,
        kind=Kind.MAPPING,
        help="one address for the models of all clusters, docs/gateway.md: port: 8080, bind: "
        "ADDRESS, host: NAME, api_keys: PATH, aliases: {ALIAS: MODEL}, max_body: 8MiB, "
        "timeout: 1h, drain: 60s",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The gateway as an inventory describes it.

    `host` is None for the head of the first cluster. `api_keys` is a file of this machine, "" for
    none. `aliases` maps further names to those that a cluster serves. `max_body` is in bytes: the
    model is found in a body up to that size. `timeout` is how long a client or a model may be
    silent, and `drain` how long requests may take to end before what answers them is stopped, in s.
    """

    bind: str = ALL_INTERFACES
    port: int = 8080
    host: str | None = None
    api_keys: str = ""
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    max_body: int = 8 << 20
    timeout: float = 3600.0
    drain: float = 60.0


def _convert_aliases(data: Any) -> Mapping[str, str]:
    aliases = convert_mapping(data)
    for alias, name in aliases.items():
        if not (MODEL_NAME.fullmatch(alias) and isinstance(name, str)):
            raise InvalidValueError(f"names of models by alias; a name has {MODEL_RULE}", data)
    return aliases


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "bind": functools.partial(convert_ipv4_address, owner="its host"),
    "port": functools.partial(convert_integer, minimum=1, maximum=65535, strict=True),
    "host": convert_text,
    "api_keys": convert_text,
    "aliases": _convert_aliases,
    "max_body": functools.partial(convert_size, minimum=MIN_BODY, maximum=MAX_BODY),
    "timeout": functools.partial(convert_duration, minimum=MIN_TIMEOUT),
    "drain": convert_duration,
}


def list_gateway_problems(data: Any) -> Iterator[tuple[str, str, str | None]]:
    """Yield what is wrong with the value of `gateway`: the key, the problem, and a hint or None."""
    for key, item in data.items() if isinstance(data, Mapping) else ():
        convert = CONVERTERS.get(key)
        if convert is None:
            known = f"known: {', '.join(CONVERTERS)}"
            yield key, f"unknown key {key!r}", did_you_mean(str(key), CONVERTERS) or known
            continue
        try:
            if item is not None:
                convert(item)
        except InvalidValueError as error:
            yield key, f"{key}: {error}", None


def parse_gateway(data: Mapping[str, Any]) -> GatewaySettings:
    """Return the gateway that `data` describes, in which `list_gateway_problems` found nothing."""
    return GatewaySettings(
        **{key: CONVERTERS[key](item) for key, item in data.items() if item is not None}
    )
