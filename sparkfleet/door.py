"""The command by which the user runs tasks: `sparkfleet`, or `invoke` in a checkout."""

from __future__ import annotations

import re

DEFAULT = "sparkfleet"
_PLACEHOLDER = re.compile(r"\{task:([a-z]+(?:\.[a-z]+)?)\}")
_state = {"door": DEFAULT}


def set_door(name: str) -> None:
    """Use `name` in all commands that are shown from now on; the program calls this once."""
    _state["door"] = name


def command_name(task: str) -> str:
    """Return how the user types `task`, with the door in use before its name."""
    return f"{_state['door']} {task}"


def expand_commands(text: str) -> str:
    """Return `text` with each ``{task:cluster.up}`` replaced by the command of that task.

    Constants and tables hold the placeholder, since the door is not known when they are imported.
    """
    return _PLACEHOLDER.sub(lambda match: command_name(match[1]), text)
