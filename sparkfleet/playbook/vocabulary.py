"""The playbook's words, and building an action from what a task says; the table is closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from sparkfleet.actions.action import Action, HostAction
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.model import Value
from sparkfleet.playbook.arguments import Argument, arguments, convert
from sparkfleet.playbook.syntax import Task, plain
from sparkfleet.spelling import similar
from sparkfleet.templating import holds_template, render

CLASSES = {  # by the word of each: its module under `sparkfleet.actions`, and its name there
    "arm_guard": ("arm_guard", "ArmGuard"),
    "assert": ("assert_", "Assert"),
    "check_logs": ("check_logs", "CheckLogs"),
    "command": ("command", "RunCommand"),
    "copy": ("copy", "Copy"),
    "debug": ("debug", "Debug"),
    "drift": ("drift", "Drift"),
    "drop_caches": ("drop_caches", "DropCaches"),
    "file": ("file", "File"),
    "gather_facts": ("gather_facts", "GatherFacts"),
    "gpu_clock": ("gpu_clock", "GpuClock"),
    "image": ("images", "Image"),
    "join_gate": ("join_gate", "JoinGate"),
    "links_gate": ("links_gate", "LinksGate"),
    "lock": ("lock", "Lock"),
    "memory_fit": ("memory_fit", "MemoryFit"),
    "model_shape": ("model_shape", "ModelShape"),
    "pause": ("pause", "Pause"),
    "preflight": ("preflight", "Preflight"),
    "prewarm": ("prewarm", "Prewarm"),
    "receipt": ("receipt", "Receipt"),
    "recover": ("recover", "Recover"),
    "render": ("render", "Render"),
    "replace_deployment": ("replace_deployment", "ReplaceDeployment"),
    "serve": ("serve", "Serve"),
    "set": ("set_", "Set"),
    "shell": ("shell", "RunShell"),
    "smoke": ("smoke", "Smoke"),
    "stage_weights": ("stage_weights", "StageWeights"),
    "start_ray": ("start_ray", "StartRay"),
    "stop_deployment": ("stop_deployment", "StopDeployment"),
    "survey": ("survey", "LookAtDeployment"),
    "template": ("template", "Template"),
    "user": ("user", "User"),
    "wait_http": ("wait_http", "WaitHttp"),
    "wait_ready": ("wait_ready", "WaitReady"),
    "wait_tcp": ("wait_tcp", "WaitTcp"),
}


class Vocabulary(Mapping[str, type[Action[Any]]]):
    """The actions by their words; each is imported when a playbook uses it.

    All of them together take longer to import than ten commands to run.
    """

    def __getitem__(self, word: str) -> type[Action[Any]]:
        module, name = CLASSES[word]
        action: type[Action[Any]] = getattr(import_module(f"sparkfleet.actions.{module}"), name)
        return action

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)

    def __contains__(self, word: object) -> bool:
        return word in CLASSES


ACTIONS: Mapping[str, type[Action[Any]]] = Vocabulary()


def works_on_cluster(action: str) -> bool:
    """Return whether an action is for the cluster as a whole, and not for each host by itself."""
    return not issubclass(ACTIONS[action], HostAction)


def takes_become(action: str) -> bool:
    """Return whether an action can do its work as another user."""
    return "become" in arguments(ACTIONS[action].args_type)


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
