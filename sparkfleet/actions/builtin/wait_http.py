"""`wait_http`: wait until a URL answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_wait import BaseWait, BaseWaitArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitHttpArgs(BaseWaitArgs):
    """The arguments of `wait_http`."""

    url: str = arg("http:// or https://, as seen from the host")
    status: tuple[int, ...] = arg("the status, or several accepted ones", default=(200,))
    contains: str = arg("text that the answer must contain", default="")


class WaitHttp(BaseWait[WaitHttpArgs]):
    """Wait until a URL answers with a status and a text."""

    name = "wait_http"
    args_type = WaitHttpArgs

    @classmethod
    def validate_args(cls, args: WaitHttpArgs) -> Iterator[str]:
        """Require a URL."""
        if not args.url.startswith(("http://", "https://")):
            yield f"url must begin with http:// or https:// (got {args.url!r})"

    def build_condition(self, args: WaitHttpArgs) -> Mapping[str, Any]:
        """Wait for the URL."""
        return {"http": {"url": args.url, "status": list(args.status), "contains": args.contains}}
