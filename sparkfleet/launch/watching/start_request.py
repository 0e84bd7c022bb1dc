"""The request of the last start that succeeded: enough to start the same again; pure.

The receipt on the head has it, and so has the machine that started. What only a host says is not
rendered on another machine: its variables could read files and the environment there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkfleet.errors import LaunchError
from sparkfleet.model import EMPTY
from sparkfleet.onhost.shared.reading import load_json_object
from sparkfleet.values import convert_integer

MAX_RANKS = 1024
TEXTS = ("run", "recipe", "recipe_file", "degraded")
CATALOGUE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?<!\.yml)(?<!\.yaml)")
START_BY_HAND = "start the cluster by hand once: {task:cluster.up}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """The options of a start; `run` is its id, and `hosts` are in rank order.

    `recipe_file` is a path of the machine that started it; `given` are the variables of ``--set``
    as typed.
    """

    recipe: str
    run: str = ""
    recipe_file: str = ""
    hosts: tuple[str, ...] = ()
    tp: int = 1
    pp: int = 1
    dp: int = 1
    given: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    degraded: str = ""

    def data(self) -> dict[str, Any]:
        """Return the request in the form of a receipt."""
        texts = {name: getattr(self, name) for name in TEXTS}
        sizes = {"hosts": list(self.hosts), "tp": self.tp, "pp": self.pp, "dp": self.dp}
        return {**texts, **sizes, "set": dict(self.given)}


def parse_start_request(receipt: str | None) -> StartRequest | None:
    """Return the request in a receipt's text, None if there is none or it has another shape."""
    content = load_json_object(receipt)
    hosts = content.get("hosts")
    given = content.get("set", {})
    if not isinstance(hosts, list) or not isinstance(given, dict):
        return None
    try:
        tp, pp, dp = (
            convert_integer(value, minimum=1, maximum=MAX_RANKS, strict=True)
            for value in (content.get("tp"), content.get("pp"), content.get("dp", 1))
        )
    except ValueError:
        return None
    run, recipe, file, degraded = (content.get(name) or "" for name in TEXTS)
    texts = (run, recipe, file, degraded, *hosts)
    if not recipe or not all(isinstance(text, str) for text in texts):
        return None
    return StartRequest(
        recipe=recipe,
        run=run,
        recipe_file=file,
        degraded=degraded,
        hosts=tuple(hosts),
        given=given,
        tp=tp,
        pp=pp,
        dp=dp,
    )


def choose_start_request(
    receipt: StartRequest | None, own: StartRequest | None, *, host: str, local: bool
) -> StartRequest:
    """Return the request to use: the receipt of `host`, or this machine's `own` copy of it.

    A later run of this machine that asked for the same changed nothing, and left the receipt as it
    was. `local` says that the host is this machine. Raises LaunchError where neither is enough.
    """
    if receipt is None:
        message = "no receipt of a start that succeeded"
        raise LaunchError(message, host=host, hint=START_BY_HAND)
    if local:
        return receipt
    if own is not None and own.run and (own.run == receipt.run or _asks_same(own, receipt)):
        return own
    if receipt.given or not CATALOGUE_NAME.fullmatch(receipt.recipe):
        names = ", ".join(sorted(map(str, receipt.given))) or f"recipe {receipt.recipe}"
        raise LaunchError(
            f"the cluster was started on another machine, with {names}; this machine does not "
            "accept that from a host",
            host=host,
            hint=f"write it into the inventory, or watch on the head; or {START_BY_HAND}",
        )
    return replace(receipt, recipe_file="")


def _asks_same(own: StartRequest, receipt: StartRequest) -> bool:
    """Return whether two requests differ at most in their run and in the path of their recipe."""
    return replace(own, run="", recipe_file="") == replace(receipt, run="", recipe_file="")
