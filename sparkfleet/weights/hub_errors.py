"""Explanations of the Hub client's errors, each with what to do about it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants, errors

from sparkfleet.weights.hub_client import HubAnswerError

NOT_HUB = (
    "check HF_ENDPOINT, and whether a proxy requires a login; or set weights_source to a local "
    "folder"
)
NO_NETWORK = "no network? set weights_source to a local folder"
NO_TOKEN = "set a token that can read it: export HF_TOKEN=hf_..."  # noqa: S105 - no secret
TRUST = "check this machine's clock; if a proxy intercepts TLS: export SSL_CERT_FILE=PROXY_CA.pem"
SCOPE = "in the token's settings, allow: read access to public gated repos you can access"
PROXY_HINT = "check your proxy and certificate settings: env | grep -iE 'proxy|ssl_cert'"
CLIENT_ERRORS = (
    OSError,
    ImportError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,  # of an answer that is a list
    RecursionError,  # of JSON that nests without end
    errors.SafetensorsParsingError,
    HubAnswerError,
)

SECONDS = re.compile("[0-9]+")
MAX_DIGITS = 9  # of seconds: thirty years

Explanation = tuple[str, str]
"""What is wrong, and what to do about it."""


def find_http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status that `error` of the client came with, if the Hub answered at all."""
    response = getattr(error, "response", None)
    return None if response is None else int(response.status_code)


def parse_retry_after(error: BaseException) -> int:
    """Return the seconds after which a busy Hub wants to be asked again; 0 where it says none.

    The Hub's rate limit is in ``RateLimit: "api";r=0;t=55``: r are left, in t s all.
    """
    response = getattr(error, "response", None)
    headers = {} if response is None else response.headers
    after = headers.get("Retry-After", "")
    limit = re.search(r";\s*r=0\s*;\s*t=(\d+)", headers.get("RateLimit", ""))
    seconds = after if SECONDS.fullmatch(after) else limit[1] if limit else "0"
    return int(seconds[:MAX_DIGITS])


def explain_hub_error(error: Exception, name: str, *, has_token: bool) -> Explanation:
    """Return why repository `name` cannot be read, by the `error` of the client."""
    response = getattr(error, "response", None)
    if response is None:
        way = f" through the proxy {find_proxy()}" if find_proxy() else ""
        problem = f"cannot reach the Hub at {constants.ENDPOINT}{way} ({error})"
        return problem, _suggest_network_fix(str(error))
    message = response.headers.get("X-Error-Message", "")
    explanation = _explain_error_kind(error, name, message, has_token=has_token)
    explanation = explanation or _explain_status(response, name, message, has_token=has_token)
    return explanation or _explain_busy(
        error, f"{response.status_code} for {name} {message}", has_token=has_token
    )


def find_proxy() -> str:
    """Return the proxy on the way to the Hub as HOST:PORT, "" for none; raises ValueError."""
    hub = urlsplit(constants.ENDPOINT)
    proxies = getproxies()
    url = proxies.get(hub.scheme) or proxies.get("all") or ""
    parts = urlsplit(url if "://" in url else f"//{url}")
    if not parts.hostname or proxy_bypass(hub.netloc):
        return ""
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname


def explain_client_error(error: Exception, name: str) -> Explanation:
    """Explain an error of the client that is not an answer of the Hub."""
    match error:
        case HubAnswerError():
            return f"{constants.ENDPOINT} {error}, asked about {name}", NOT_HUB
        case errors.LocalEntryNotFoundError() | errors.FileMetadataError():
            problem = f"{constants.ENDPOINT} lists {name}, but does not serve its files: {error}"
            return problem, NOT_HUB
        case errors.SafetensorsParsingError():
            return f"{name} has no valid safetensors: {error}", "use another model"
        case OSError() | ImportError():
            return f"the Hub's client does not work on this machine: {error}", PROXY_HINT
    return f"the server at {constants.ENDPOINT} is not the Hub: {error}", NOT_HUB


def _suggest_network_fix(message: str) -> str:
    """Return what to do where no answer came, by what the client's network layer says."""
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return TRUST
    return NOT_HUB if "protocol" in message else NO_NETWORK  # an address without https://


def _explain_error_kind(
    error: Exception, name: str, message: str, *, has_token: bool
) -> Explanation | None:
    page = f"{constants.ENDPOINT}/{name}"
    accept = f"accept its licence on {page}"
    match error:
        case errors.RevisionNotFoundError():
            return f"revision not found in {name}", f"see {page}/commits/main"
        case errors.GatedRepoError() if not has_token:
            return f"{name} is gated, and there is no token", f"{accept}; {NO_TOKEN}"
        case errors.GatedRepoError():
            return f"{name} is gated, and the owner of this token has no access: {message}", accept
        case errors.DisabledRepoError():
            return f"the Hub has disabled {name}", f"see {page}; use another model"
        case errors.RepositoryNotFoundError():
            private = "" if has_token else f"; if private, {NO_TOKEN}"
            problem = f"model {name} not found on the Hub (or private)"
            return problem, f"check its name on {page}{private}"
    return None


def _explain_status(
    response: Any, name: str, message: str, *, has_token: bool
) -> Explanation | None:
    """Explain a status; only the Hub itself sends a message with it, a proxy sends none."""
    settings = f"{constants.ENDPOINT}/settings/tokens"
    match response.status_code:
        case 401 if has_token:
            return "the Hub does not accept this token", f"make a new one: {settings}"
        case 403 if message:
            return f"this token cannot read {name}: {message}", f"{SCOPE}: {settings}"
        case 401 | 403 as status:
            return f"the server at {constants.ENDPOINT} refuses {name}: status {status}", NOT_HUB
        case 404:
            return f"{name} not found at {constants.ENDPOINT}", NOT_HUB
    return None


def _explain_busy(error: Exception, answer: str, *, has_token: bool) -> Explanation:
    after = parse_retry_after(error)
    hint = f"try again in {after} s" if after else "try again later"
    if find_http_status(error) == 429 and not has_token:
        hint += "; the limit is higher with a token: export HF_TOKEN=hf_..."
    return f"the Hub answered {answer}", hint
