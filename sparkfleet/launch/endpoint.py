"""Asking the endpoint, from the host it is on: that works behind any firewall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkfleet.remote.link import Link

MODELS_TIMEOUT = 30.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a deployment answers on its host; `folder` holds its files, with the key if any."""

    port: int
    served_name: str
    folder: str

    def models(self, link: Link) -> list[str]:
        """Return the names of the models that are served; raises CommandError."""
        request = {**self._request(MODELS_TIMEOUT), "ask": None}
        models: list[str] = link.ask("chat", request, timeout=2 * MODELS_TIMEOUT)["models"]
        return models

    def chat(self, link: Link, ask: str, *, tokens: int, timeout: float) -> dict[str, Any]:
        """Ask one question; return its `answer` and the `seconds`. Raises CommandError."""
        request = {**self._request(timeout), "ask": ask, "max_tokens": tokens}
        return link.ask("chat", request, timeout=2 * timeout)

    def _request(self, timeout: float) -> dict[str, Any]:
        return {
            "url": f"http://127.0.0.1:{self.port}",
            "model": self.served_name,
            "timeout": timeout,
            "environment": f"{self.folder}/nccl.env",
        }
