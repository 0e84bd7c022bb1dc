"""Requests to the endpoint, sent from its own host, so they work behind any firewall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError
from sparkfleet.launch.endpoint.replies import LOGS_FIX, Reply, parse_reply
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.file_names import ENVIRONMENT
from sparkfleet.model import EMPTY
from sparkfleet.onhost.shared.endpoint_url import build_local_url
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_list, convert_string

T = TypeVar("T")
PROGRAM = "deployment/chat"
MODELS_TIMEOUT = 30.0  # seconds
SILENCE = 30.0  # seconds without an answer of `/health`; a long prompt can keep a server busy
GREEDY: Mapping[str, Any] = {"temperature": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a deployment on its host; `folder` holds its files, with the API key if any."""

    listens_on: str
    port: int
    served_name: str
    folder: str

    @property
    def url(self) -> str:
        """The URL on its own host."""
        return build_local_url(self.listens_on, self.port)

    def list_models(self, connection: Connection) -> list[str]:
        """Return the names of the models that are served; raises CommandError."""
        return self._request(connection, (), _parse_models, timeout=MODELS_TIMEOUT)

    def chat(
        self,
        connection: Connection,
        prompt: str,
        *,
        tokens: int,
        timeout: float,
        copy: int | None = None,
    ) -> Reply:
        """Send one question and return the reply; raises CommandError if there is no answer.

        `copy` is the copy of the model that must answer, None for any.
        """
        body = self.body(prompt, tokens=tokens)
        copies = () if copy is None else (copy,)
        (reply,) = self.post_all(connection, (body,), timeout=timeout, copies=copies)
        if reply.refusal:
            raise CommandError(
                f"{self.url}{reply.refusal}",
                host=connection.host.name,
                hint=LOGS_FIX,
            )
        return reply

    def body(self, prompt: Any, *, tokens: int, extra: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """Return a greedy request for `prompt`, a text or the parts of a message."""
        messages = [{"role": "user", "content": prompt}]
        return {
            "model": self.served_name,
            "messages": messages,
            "max_tokens": tokens,
            **GREEDY,
            **extra,
        }

    def post(self, connection: Connection, body: Mapping[str, Any], *, timeout: float) -> Reply:
        """Send one request and return its reply, which may be an error; raises CommandError."""
        return self.post_all(connection, (body,), timeout=timeout)[0]

    def post_all(
        self,
        connection: Connection,
        bodies: Sequence[Mapping[str, Any]],
        *,
        timeout: float,
        copies: Sequence[int] = (),
    ) -> tuple[Reply, ...]:
        """Send requests at the same time and return their replies; raises CommandError.

        `copies` names the copy of the model that must answer each; empty where any may.
        """
        parser = partial(_parse_replies, count=len(bodies))
        return self._request(connection, bodies, parser, timeout=timeout, copies=copies)

    def _request(
        self,
        connection: Connection,
        bodies: Sequence[Mapping[str, Any]],
        parser: Callable[[Any], T],
        *,
        timeout: float,
        copies: Sequence[int] = (),
    ) -> T:
        request = {
            "url": self.url,
            "bodies": [dict(body) for body in bodies],
            "copies": list(copies),
            "timeout": timeout,
            "silence": SILENCE,
            "environment": f"{self.folder}/{ENVIRONMENT}",
        }
        done = connection.run(
            build_script_command(PROGRAM, request), timeout=2 * timeout, hold=True
        )
        answer = connection.parse_answer(PROGRAM, done)
        return parse_answer(parser, answer, connection.host.name, PROGRAM)


def find_recorded_endpoint(about: DeploymentRecord, folder: str) -> Endpoint:
    """Return the endpoint of the deployment that the record `about` describes."""
    return Endpoint(
        listens_on=about.listens_on, port=about.port, served_name=about.served_name, folder=folder
    )


def _parse_models(answer: Mapping[str, Any]) -> list[str]:
    return list(map(convert_string, convert_list(answer["models"])))


def _parse_replies(answer: Mapping[str, Any], *, count: int) -> tuple[Reply, ...]:
    return tuple(map(parse_reply, convert_list(answer["replies"], length=count)))
