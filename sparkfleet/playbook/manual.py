"""The actions and their arguments as documentation, from the dataclasses that declare them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sparkfleet.playbook.arguments import Argument, arguments
from sparkfleet.playbook.vocabulary import ACTIONS, works_on_cluster


def text(names: list[str]) -> Iterator[str]:
    """Yield the manual of the actions `names` as lines for a terminal."""
    for name in names:
        yield f"{name}: {_summary(name)}"
        for argument in _arguments(name):
            yield f"    {argument.name} ({argument.kind}; {_default(argument)}): {argument.help}"
        yield ""


def markdown() -> str:
    """Return the manual of all actions for ``docs/playbooks.md``: those of each host first."""
    users = sorted(name for name in ACTIONS if not works_on_cluster(name))
    ours = sorted(name for name in ACTIONS if works_on_cluster(name))
    parts = [_section(name) for name in users]
    parts += ["### Actions of the cluster\n\nEach is for the cluster as a whole; together they are "
              "`cluster_up`.\n\n| action | what it does |\n|---|---|\n"
              + "".join(f"| `{name}` | {_row(name)} |\n" for name in ours)]  # fmt: skip
    return "\n".join(parts)


def _section(name: str) -> str:
    rows = "".join(
        f"| `{one.name}` | {one.kind} | {_default(one)} | {one.help} |\n"
        for one in _arguments(name)
    )
    table = "| argument | type | default | |\n|---|---|---|---|\n" + rows
    return f"### `{name}`\n\n{_summary(name)}\n\n{table}"


def _row(name: str) -> str:
    takes = "".join(f" `{one.name}` ({one.kind}): {one.help}." for one in _arguments(name))
    return _summary(name) + takes


def _summary(name: str) -> str:
    return " ".join(inspect.cleandoc(ACTIONS[name].__doc__ or "").split("\n\n")[0].split())


def _arguments(name: str) -> Iterator[Argument]:
    for one in arguments(ACTIONS[name].args_type).values():
        if one.name == ACTIONS[name].rest:
            yield Argument(name="NAME", hint=object, help=one.help, needed=True)
        else:
            yield one


def _default(argument: Argument) -> str:
    if argument.needed:
        return "needed"
    if argument.default in (None, "", ()):
        return "-"
    if isinstance(argument.default, tuple):
        return ", ".join(str(item) for item in argument.default)
    number = isinstance(argument.default, float)
    return f"{argument.default:g}" if number else str(argument.default)
