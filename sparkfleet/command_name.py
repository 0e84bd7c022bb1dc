"""The command by which the user runs tasks: `sparkfleet`, or `invoke` in a checkout."""

from __future__ import annotations

import re

DEFAULT = "sparkfleet"
_PLACEHOLDER = re.compile(r"\{task:([a-z]+(?:\.[a-z]+)?)\}")
_state = {"program": DEFAULT}


def set_program_name(name: str) -> None:
    """Use `name` in all commands that are shown from now on; the program calls this once."""
    _state["program"] = name


def name_command(task: str) -> str:
    """Return how the user types `task`, after the name of the program in use."""
    return f"{_state['program']} {task}"


def expand_commands(text: str) -> str:
    """Return `text` with each ``{task:cluster.up}`` replaced by the command of that task.

    Constants and tables hold the placeholder: the program is not known when they are imported.
    """
    return _PLACEHOLDER.sub(lambda match: name_command(match[1]), text)
