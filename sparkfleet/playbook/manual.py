"""Documentation of the actions and their arguments, from the dataclasses that declare them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sparkfleet.playbook.arguments import Argument, list_arguments
from sparkfleet.playbook.vocabulary import ACTIONS, works_on_cluster


def format_manual(names: list[str]) -> Iterator[str]:
    """Yield the manual of the actions `names` as lines for a terminal."""
    for name in names:
        yield f"{name}: {_read_summary(name)}"
        for argument in _list_documented_arguments(name):
            yield (
                f"    {argument.name} ({argument.kind}; {_format_default(argument)}): "
                f"{argument.help}"
            )
        yield ""


def format_markdown_manual() -> str:
    """Return the manual of all actions for ``docs/playbooks.md``: host actions first."""
    host_actions = sorted(name for name in ACTIONS if not works_on_cluster(name))
    cluster_actions = sorted(name for name in ACTIONS if works_on_cluster(name))
    parts = [_format_section(name) for name in host_actions]
    rows = "".join(f"| `{name}` | {_format_action_row(name)} |\n" for name in cluster_actions)
    parts.append(
        "### Actions of the cluster\n\nEach works on the cluster as a whole; most of them form "
        f"`cluster_up`.\n\n| action | what it does |\n|---|---|\n{rows}"
    )
    return "\n".join(parts)


def _format_section(name: str) -> str:
    rows = "".join(
        f"| `{argument.name}` | {argument.kind} | {_format_default(argument)} | {argument.help} |\n"
        for argument in _list_documented_arguments(name)
    )
    table = "| argument | type | default | |\n|---|---|---|---|\n" + rows
    return f"### `{name}`\n\n{_read_summary(name)}\n\n{table}"


def _format_action_row(name: str) -> str:
    takes = "".join(
        f" `{argument.name}` ({argument.kind}): {argument.help}."
        for argument in _list_documented_arguments(name)
    )
    return _read_summary(name) + takes


def _read_summary(name: str) -> str:
    return " ".join(inspect.cleandoc(ACTIONS[name].__doc__ or "").split("\n\n")[0].split())


def _list_documented_arguments(name: str) -> Iterator[Argument]:
    for argument in list_arguments(ACTIONS[name].args_type).values():
        if argument.name == ACTIONS[name].rest:
            yield Argument(name="NAME", hint=object, help=argument.help, needed=True)
        else:
            yield argument


def _format_default(argument: Argument) -> str:
    if argument.needed:
        return "required"
    if argument.default in (None, "", ()):
        return "-"
    if isinstance(argument.default, tuple):
        return ", ".join(str(item) for item in argument.default)
    number = isinstance(argument.default, float)
    return f"{argument.default:g}" if number else str(argument.default)
