"""Asking the endpoint, from the host it is on: that works behind any firewall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import script
from sparkfleet.errors import CommandError
from sparkfleet.launch.replies import Reply, parse
from sparkfleet.model import EMPTY
from sparkfleet.remote.link import Link

MODELS_TIMEOUT = 30.0  # s
GREEDY: Mapping[str, Any] = {"temperature": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a deployment answers on its host; `folder` holds its files, with the key if any."""

    port: int
    served_name: str
    folder: str

    @property
    def url(self) -> str:
        """The address on its own host."""
        return f"http://127.0.0.1:{self.port}"

    def models(self, link: Link) -> list[str]:
        """Return the names of the models that are served; raises CommandError."""
        models: list[str] = self._ask(link, (), MODELS_TIMEOUT)["models"]
        return models

    def chat(self, link: Link, ask: str, *, tokens: int, timeout: float) -> Reply:
        """Ask one question and return the reply; raises CommandError where there is none."""
        reply = self.post(link, self.body(ask, tokens=tokens), timeout=timeout)
        if reply.refusal:
            raise CommandError(f"{self.url}{reply.refusal}", host=link.host.name)
        return reply

    def body(self, ask: Any, *, tokens: int, extra: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """Return a request for a greedy answer to `ask`: a text, or the parts of a message."""
        messages = [{"role": "user", "content": ask}]
        return {
            "model": self.served_name,
            "messages": messages,
            "max_tokens": tokens,
            **GREEDY,
            **extra,
        }

    def post(self, link: Link, body: Mapping[str, Any], *, timeout: float) -> Reply:
        """Send one request; a reply that is an error is returned too. Raises CommandError."""
        return self.together(link, (body,), timeout=timeout)[0]

    def together(
        self, link: Link, bodies: Sequence[Mapping[str, Any]], *, timeout: float
    ) -> tuple[Reply, ...]:
        """Send requests at the same time and return their replies; raises CommandError."""
        return tuple(map(parse, self._ask(link, bodies, timeout)["replies"]))

    def _ask(
        self, link: Link, bodies: Sequence[Mapping[str, Any]], timeout: float
    ) -> dict[str, Any]:
        request = {
            "url": self.url,
            "bodies": [dict(body) for body in bodies],
            "timeout": timeout,
            "environment": f"{self.folder}/nccl.env",
        }
        done = link.run(script("chat", request), timeout=2 * timeout, hold=True)
        return link.answer("chat", done)
