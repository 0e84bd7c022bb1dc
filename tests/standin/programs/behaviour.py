"""Misbehaviour of the stand-in engine's programs on this host, from a file.

``/opt/standin/behaviour.json`` holds, by role (``ray`` or ``serve``), an object of:

- ``at`` with ``exit``, ``kill`` or ``hang``: when the log line with that text is printed
  (``start``: before anything), exit with that status, die by SIGKILL, or say nothing for ever;
- ``say``: lines to print before that;
- ``pace``: seconds that the start takes;
- ``answer``: what every question is answered; ``unhealthy``: `/health` says 503;
- ``unaware``: a rank that died is noticed by the next request alone, also under Ray;
- ``unparsed``: thoughts and calls of tools stand in the answer, as with another model's parser;
- ``speed``: parts of a stream a second, else at once;
- ``dies_after``: seconds that it serves until it exits, with ``exit`` or 1;
- ``ignore_sigterm``: SIGTERM does nothing; ``linger``: children outlive their parent and SIGTERM;
- ``unlabelled``: the environment of child processes is empty, as when a title overwrote it;
- ``claims``: the version that Ray says it has; ``gpus``: how many it offers;
- ``only``: the value of STANDIN in the environment for which all this holds; absent: any.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FILE = Path("/opt/standin/behaviour.json")
START = "start"


def of(role: str) -> dict[str, Any]:
    """Return the behaviour of `role`, empty where it shall behave well."""
    try:
        found: dict[str, Any] = json.loads(FILE.read_text()).get(role, {})
    except FileNotFoundError:
        return {}
    only = found.get("only")
    return found if only in (None, os.environ.get("STANDIN")) else {}


def happen(behaviour: dict[str, Any], line: str) -> None:
    """Misbehave, if `line` is the one at which that is due."""
    if "at" not in behaviour or behaviour["at"] not in line:
        return
    for text in behaviour.get("say", ()):
        print(text, flush=True)
    if "exit" in behaviour:
        sys.stdout.flush()
        os._exit(behaviour["exit"])
    if "kill" in behaviour:
        os.kill(os.getpid(), signal.SIGKILL)
    if "hang" in behaviour:
        time.sleep(100_000)
