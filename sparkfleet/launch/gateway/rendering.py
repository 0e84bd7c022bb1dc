"""The files of the gateway on its host, and a hash over them; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.inventory.gateway import Gateway
from sparkfleet.launch.gateway.keys import ApiKey
from sparkfleet.launch.gateway.routes import ModelRoute
from sparkfleet.quantities import format_exact_size
from sparkfleet.templating import render_template
from sparkfleet.variables.gateway import GATEWAY
from sparkfleet.variables.secret import VEIL

CONFIG = "haproxy.cfg"
SCRIPT = "gateway.sh"
MODELS = "models.map"
KEYS = "keys.map"
BACKENDS = "backends.map"
REASONS = "reasons.map"
FILES = (CONFIG, SCRIPT, MODELS, KEYS, BACKENDS, REASONS)
SECRET_FILES = (KEYS, BACKENDS)

CONNECTIONS = 1000
THREADS = 4
HEADERS = 32 << 10  # bytes of a request besides its body, and room to rewrite
HASH_MARK = "0" * 16
UNKNOWN = "none of its clusters answers"

FAILURES: Mapping[int, str] = {
    400: "the request is not valid HTTP",
    408: "the request did not arrive in time",
    500: "the gateway failed",
    502: "the model closed the connection, or sent a response that is not HTTP",
    503: "the model is not served",
    504: "the model did not answer in time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFiles:
    """The files by name, with secrets in `SECRET_FILES`, and their hash."""

    files: Mapping[str, str]
    hash: str


def render_gateway(
    gateway: Gateway, routes: Sequence[ModelRoute], keys: Sequence[ApiKey], sources: Sequence[str]
) -> GatewayFiles:
    """Render the gateway; `sources` are the files of the inventory."""
    variables = {
        **_list_constants(gateway, routes),
        "sources": ", ".join(sources),
        "routes": routes,
        "asks_key": bool(keys),
    }
    files = {
        CONFIG: render_template("haproxy.cfg.j2", variables),
        SCRIPT: render_template("gateway.sh.j2", {"host": gateway.host.name, "cluster": GATEWAY}),
        MODELS: _render_map((name, route.backend) for route in routes for name in route.names),
        KEYS: _render_map((each.digest, each.name) for each in keys),
        BACKENDS: _render_map(
            (route.backend, f"Bearer {route.key}") for route in routes if keys and route.key
        ),
        REASONS: _render_map((route.backend, UNKNOWN) for route in routes),
    }
    hash_ = _hash_files(files)
    files[CONFIG] = files[CONFIG].replace(HASH_MARK, hash_)
    return GatewayFiles(files=files, hash=hash_)


def _list_constants(gateway: Gateway, routes: Sequence[ModelRoute]) -> dict[str, Any]:
    settings = gateway.settings
    return {
        "bind": settings.bind,
        "port": settings.port,
        "timeout": round(settings.timeout),
        "buffer": settings.max_body + HEADERS,
        "connections": CONNECTIONS,
        "threads": THREADS,
        "hash": HASH_MARK,
        "served": ", ".join(name for route in routes for name in route.names),
        "failures": [
            (status, format_openai_error(text, kind="server_error"))
            for status, text in FAILURES.items()
        ],
        "refusals": _list_refusals(settings.max_body),
    }


def _list_refusals(max_body: int) -> dict[str, str]:
    size = format_exact_size(max_body)
    return {
        "nothing": format_openai_error("no model is served", kind="server_error"),
        "key": format_openai_error(
            "incorrect API key: send Authorization: Bearer KEY with a key of this gateway",
            code="invalid_api_key",
        ),
        "path": format_openai_error(
            "this gateway answers GET /v1/models, and POST requests whose JSON names a model",
            code="not_found",
        ),
        "large": format_openai_error(
            f"the body is larger than {size}, and names no model in its first {size}: put model "
            "before messages, or raise max_body of the gateway",
            code="request_too_large",
        ),
        "unnamed": format_openai_error(
            "the body names no model: it must be JSON with a model", param="model"
        ),
    }


def format_openai_error(
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
) -> str:
    """Return an error in the form of OpenAI's API; `message` has no quotes."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error})


def _render_map(entries: Iterator[tuple[str, str]]) -> str:
    """Return a map of HAProxy: a key, a blank, and the rest of the line."""
    return "".join(f"{key} {value}\n" for key, value in entries)


def _hash_files(files: Mapping[str, str]) -> str:
    whole = json.dumps(dict(files), sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def mask_gateway_file(name: str, text: str | None) -> str | None:
    """Return a file without its secrets; of a key, the name of its user remains."""
    if text is None or name not in SECRET_FILES:
        return text
    return "".join(f"{_mask_entry(name, line)}\n" for line in text.splitlines())


def _mask_entry(name: str, line: str) -> str:
    key, _, value = line.partition(" ")
    return f"{VEIL} {value}" if name == KEYS else f"{key} {VEIL}"
