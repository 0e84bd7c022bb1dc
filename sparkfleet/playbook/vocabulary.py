"""The playbook's words, and building an action from what a task says; the table is closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.actions.action import Action, HostAction
from sparkfleet.actions.assert_ import Assert
from sparkfleet.actions.command import RunCommand
from sparkfleet.actions.copy import Copy
from sparkfleet.actions.debug import Debug
from sparkfleet.actions.file import File
from sparkfleet.actions.gather_facts import GatherFacts
from sparkfleet.actions.join_gate import JoinGate
from sparkfleet.actions.links_gate import LinksGate
from sparkfleet.actions.lock import Lock
from sparkfleet.actions.pause import Pause
from sparkfleet.actions.preflight import Preflight
from sparkfleet.actions.receipt import Receipt
from sparkfleet.actions.render import Render
from sparkfleet.actions.replace_deployment import ReplaceDeployment
from sparkfleet.actions.serve import Serve
from sparkfleet.actions.set_ import Set
from sparkfleet.actions.shell import RunShell
from sparkfleet.actions.smoke import Smoke
from sparkfleet.actions.stage_weights import StageWeights
from sparkfleet.actions.start_ray import StartRay
from sparkfleet.actions.stop_deployment import StopDeployment
from sparkfleet.actions.survey import LookAtDeployment
from sparkfleet.actions.template import Template
from sparkfleet.actions.wait_http import WaitHttp
from sparkfleet.actions.wait_ready import WaitReady
from sparkfleet.actions.wait_tcp import WaitTcp
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.model import Value
from sparkfleet.playbook.arguments import Argument, arguments, convert
from sparkfleet.playbook.syntax import Task, plain
from sparkfleet.resources import similar
from sparkfleet.templating import holds_template, render

ACTIONS: Mapping[str, type[Action[Any]]] = {
    action.name: action
    for action in (
        Assert,
        Copy,
        Debug,
        File,
        GatherFacts,
        JoinGate,
        LinksGate,
        Lock,
        LookAtDeployment,
        Pause,
        Preflight,
        Receipt,
        Render,
        ReplaceDeployment,
        RunCommand,
        RunShell,
        Serve,
        Set,
        Smoke,
        StageWeights,
        StartRay,
        StopDeployment,
        Template,
        WaitHttp,
        WaitReady,
        WaitTcp,
    )
}


def works_on_cluster(action: str) -> bool:
    """Return whether an action is for the cluster as a whole, and not for each host by itself."""
    return not issubclass(ACTIONS[action], HostAction)


def runs_once(action: str) -> bool:
    """Return whether an action is done once for all hosts of a play."""
    return ACTIONS[action].once


def check(action: str, args: Mapping[str, Value], where: Where | None) -> list[Problem]:
    """Return what is wrong with the arguments of a task, as far as that shows before the run."""
    late = {name for name, value in args.items() if holds_template(value.data)}
    return _read(action, args, where, late)[1]


def _read(
    action: str, args: Mapping[str, Value], where: Where | None, late: set[str]
) -> tuple[Any, list[Problem]]:
    """Return the action's arguments and what is wrong; those named in `late` are not known yet."""
    kind = ACTIONS[action]
    known = arguments(kind.args_type)
    problems = list(_names(action, args, known, where))
    ready = {}
    for name in args.keys() & known.keys() - late:
        try:
            ready[name] = convert(args[name].data, known[name].hint)
        except ValueError as error:
            problems.append(Problem(message=f"{action}: {name} {error}", where=args[name].where))
    if problems or late:
        return None, problems
    made = kind.args_type(**ready)
    return made, [Problem(message=f"{action}: {text}", where=where) for text in kind.faults(made)]


def _names(
    action: str, args: Mapping[str, Value], known: Mapping[str, Argument], where: Where | None
) -> Iterator[Problem]:
    for name, value in args.items():
        if name not in known:
            hint = similar(str(name), list(known)) if known else f"{action} takes no arguments"
            message = f"{action} has no argument {name!r}"
            yield Problem(message=message, where=value.where or where, hint=hint)
    for argument in known.values():
        if argument.needed and argument.name not in args:
            message = f"{action} needs the argument {argument.name!r}"
            yield Problem(message=message, where=where, hint=argument.help)


def build(task: Task, variables: Mapping[str, Mapping[str, Any]]) -> Action[Any]:
    """Return the action of `task` with its arguments rendered; raises PlaybookError.

    For an action of each host, `variables` are those of every host by its name; for one of the
    whole cluster, those of its head.
    """
    kind = ACTIONS[task.action]
    if holds_template(plain(task.args)):
        rendered = {host: _arguments(task, own) for host, own in variables.items()}
    else:
        rendered = dict.fromkeys(variables, _arguments(task, {}))
    action = kind(rendered if issubclass(kind, HostAction) else next(iter(rendered.values())))
    action.where = task.where
    return action


def _arguments(task: Task, variables: Mapping[str, Any]) -> Any:
    args = {}
    for name, value in task.args.items():
        data = render(value.data, variables, where=value.where, error=PlaybookError)
        if data is not None:
            args[name] = Value(data=data, where=value.where)
    made, problems = _read(task.action, args, task.where, set())
    if problems:
        raise PlaybookError.of(problems)
    return made
