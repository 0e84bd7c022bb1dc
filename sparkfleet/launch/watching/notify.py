"""`notify` of the inventory: sends an event to a webhook and to a command of this machine.

The URL of a webhook lets anyone who has it post there. It is read from a file, and is never part
of a message, a log or a command line.

An event quotes hosts, logs and recipes. In a chat their words mention no user, and a link shows
its address: https://docs.slack.dev/messaging/formatting-message-text names what Slack obeys,
and https://github.com/mattermost/mattermost/issues/13881 that a name after @ is mentioned.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from sparkfleet.errors import InventoryError
from sparkfleet.inventory import secret_files
from sparkfleet.launch.watching.events import ClusterEvent, clean_event
from sparkfleet.model import Host
from sparkfleet.resources import expand_home
from sparkfleet.variables.secret import FROM_FILE, is_file

LIMIT = 10.0  # seconds for the webhook, and for the command
KEYS = ("webhook", "command")
SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
MENTION_OR_LINK = re.compile(r"@(?=\w)|\](?=[(\[])")  # of Mattermost: @all, [text](address)
APART = "\u200b"  # a space without width

logging.getLogger("httpx").setLevel(logging.WARNING)  # below it, each message has the whole URL


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
            expand_home(webhook[FROM_FILE]),
            subject="notify: webhook",
            where=where,
            hint="the file must be on the machine that watches, and hold only the URL",
        ).strip()
        if not url.startswith(("https://", "http://")):
            raise InventoryError(
                f"notify: webhook: {webhook[FROM_FILE]} does not contain a URL",
                where=where,
                hint="write one line that starts with https:// into the file",
            )
    return NotifySettings(webhook=url, command=tuple(data.get("command") or ()))


def send_event(settings: NotifySettings, event: ClusterEvent, cluster: str) -> tuple[str, ...]:
    """Send `event`; return what failed, as lines without the URL. Raises nothing for a failure."""
    event = clean_event(event)
    text = f"sparkfleet: cluster {cluster}: {event.kind}: {event.text}"
    if event.cause:
        text += f"; cause: {event.cause}"
    message = {"cluster": cluster, "event": event.data()}
    return (
        *_post_event(settings.webhook, {"text": escape_chat_text(text), **message}),
        *_run_command(settings.command, {"text": text, **message}),
    )


def escape_chat_text(text: str) -> str:
    """Return `text` as Slack and Mattermost show it: no mention, and no link with other words."""
    return MENTION_OR_LINK.sub(rf"\g<0>{APART}", text).translate(SLACK)


def _post_event(url: str, message: Mapping[str, Any]) -> Iterator[str]:
    if not url:
        return
    try:
        status = asyncio.run(_post(url, json.dumps(message).encode()))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        yield f"the webhook could not be reached ({type(error).__name__})"
        return
    if not httpx.codes.is_success(status):
        yield f"the webhook answered with status {status}"


async def _post(url: str, body: bytes) -> int:
    """Return the status of the answer; raises TimeoutError where that takes more than `LIMIT` s.

    Its body is not read, however long it is. A limit of httpx starts again with each byte.
    """
    headers = {"Content-Type": "application/json"}
    async with (
        asyncio.timeout(LIMIT),
        httpx.AsyncClient(timeout=LIMIT, follow_redirects=False) as client,
        client.stream("POST", url, content=body, headers=headers) as reply,
    ):
        return reply.status_code


def _run_command(command: tuple[str, ...], message: Mapping[str, Any]) -> Iterator[str]:
    """Run `command` without a shell, the event as JSON on its standard input."""
    if not command:
        return
    body = json.dumps(message).encode()
    try:
        done = subprocess.run(command, input=body, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        yield f"the command {command[0]} did not finish within {LIMIT:.0f} s"
    except OSError as error:
        yield f"the command {command[0]} could not be started: {error.strerror}"
    else:
        if done.returncode:
            yield f"the command {command[0]} exited with status {done.returncode}"
