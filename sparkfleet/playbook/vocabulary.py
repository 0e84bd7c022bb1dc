"""The playbook's words, and building an action from what a task says; the table is closed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sparkfleet.actions.action import Action
from sparkfleet.actions.gather_facts import GatherFacts
from sparkfleet.actions.join_gate import JoinGate
from sparkfleet.actions.links_gate import LinksGate
from sparkfleet.actions.lock import Lock
from sparkfleet.actions.preflight import Preflight
from sparkfleet.actions.receipt import Receipt
from sparkfleet.actions.render import Render
from sparkfleet.actions.replace_deployment import ReplaceDeployment
from sparkfleet.actions.serve import Serve
from sparkfleet.actions.smoke import Smoke
from sparkfleet.actions.stage_weights import StageWeights
from sparkfleet.actions.start_ray import StartRay
from sparkfleet.actions.stop_deployment import StopDeployment
from sparkfleet.actions.survey import LookAtDeployment
from sparkfleet.actions.wait_ready import WaitReady
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.playbook.syntax import Task
from sparkfleet.resources import similar
from sparkfleet.templating import render

ACTIONS: Mapping[str, type[Action[Any]]] = {
    action.name: action
    for action in (
        GatherFacts,
        JoinGate,
        LinksGate,
        Lock,
        LookAtDeployment,
        Preflight,
        Receipt,
        Render,
        ReplaceDeployment,
        Serve,
        Smoke,
        StageWeights,
        StartRay,
        StopDeployment,
        WaitReady,
    )
}


def check(action: str, args: Mapping[str, Any], where: Where | None) -> Iterator[Problem]:
    """Yield what is wrong with the arguments of a task, as far as that shows before the run."""
    fields = {field.name: field for field in dataclasses.fields(ACTIONS[action].args_type)}
    hints = get_type_hints(ACTIONS[action].args_type)
    for name, value in args.items():
        if name not in fields:
            hint = similar(str(name), list(fields)) if fields else f"{action} takes no arguments"
            yield Problem(message=f"{action} has no argument {name!r}", where=where, hint=hint)
        elif fault := _fault(value, hints[name]):
            yield Problem(message=f"{action}: {name} {fault}", where=where)
    for name, field in fields.items():
        needed = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if needed and name not in args:
            yield Problem(message=f"{action} needs the argument {name!r}", where=where)


def _fault(value: Any, hint: Any) -> str:
    if isinstance(value, str) and "{{" in value:
        return ""  # known only when it is rendered; `build` looks again
    if get_origin(hint) is Literal:
        known = get_args(hint)
        return "" if value in known else f"is one of {', '.join(known)}, not {value!r}"
    return ""


def build(task: Task, variables: Mapping[str, Any]) -> Action[Any]:
    """Return the action of `task` with its arguments rendered; raises PlaybookError."""
    args = render(dict(task.args), variables, where=task.where, error=PlaybookError)
    if problems := list(check(task.action, args, task.where)):
        raise PlaybookError.of(problems)
    kind = ACTIONS[task.action]
    return kind(kind.args_type(**args))
