"""`notify` of the inventory: sends an event to a webhook and to a command of this machine.

The URL of a webhook lets anyone who has it post there. It is read from a file, and is never part
of a message, a log or a command line.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from sparkfleet.errors import InventoryError
from sparkfleet.inventory import secret_files
from sparkfleet.launch.watching.events import ClusterEvent
from sparkfleet.model import Host
from sparkfleet.variables.secret import FROM_FILE, is_file

LIMIT = 10.0  # s for the webhook, and for the command
KEYS = ("webhook", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """Destinations of events; "" and () where neither is set."""

    webhook: str = field(default="", repr=False)
    command: tuple[str, ...] = ()


def read_notify_settings(head: Host) -> NotifySettings:
    """Return `notify` of the head; raises InventoryError, which never quotes the URL."""
    value = head.vars.get("notify")
    data: Mapping[str, Any] = value.data or {} if value is not None else {}
    webhook = data.get("webhook")
    url = ""
    if isinstance(webhook, Mapping) and is_file(webhook):
        where = value.where if value is not None else None
        url = secret_files.read_secret_file(
            Path(webhook[FROM_FILE]).expanduser(),
            subject="notify: webhook",
            where=where,
            hint="the file must be on the machine that watches, and hold only the URL",
        ).strip()
        if not url.startswith(("https://", "http://")):
            raise InventoryError(
                f"notify: webhook is to come from {webhook[FROM_FILE]}: it does not hold a URL",
                where=where,
                hint="write one line that starts with https:// into the file",
            )
    return NotifySettings(webhook=url, command=tuple(data.get("command") or ()))


def send_event(settings: NotifySettings, event: ClusterEvent, cluster: str) -> tuple[str, ...]:
    """Send `event`; return what failed, as lines without the URL. Raises nothing for a failure."""
    text = f"sparkfleet: cluster {cluster}: {event.kind}: {event.text}"
    if event.cause:
        text += f"; cause: {event.cause}"
    body = json.dumps({"text": text, "cluster": cluster, "event": event.data()}).encode()
    return (*_post_event(settings.webhook, body), *_run_command(settings.command, body))


def _post_event(url: str, body: bytes) -> Iterator[str]:
    if not url:
        return
    try:
        headers = {"Content-Type": "application/json"}
        with (
            httpx.Client(timeout=LIMIT, follow_redirects=False) as client,
            client.stream("POST", url, content=body, headers=headers) as reply,
        ):
            status = reply.status_code  # its body is not read, however long it is
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        yield f"the webhook could not be reached ({type(error).__name__})"
        return
    if not httpx.codes.is_success(status):
        yield f"the webhook answered with status {status}"


def _run_command(command: tuple[str, ...], body: bytes) -> Iterator[str]:
    """Run `command` without a shell, the event as JSON on its standard input."""
    if not command:
        return
    try:
        done = subprocess.run(command, input=body, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        yield f"the command {command[0]} did not end within {LIMIT:.0f} s"
    except OSError as error:
        yield f"the command {command[0]} could not be started: {error.strerror}"
    else:
        if done.returncode:
            yield f"the command {command[0]} ended with status {done.returncode}"
