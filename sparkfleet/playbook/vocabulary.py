"""The actions of playbooks, a closed table, and the construction of an action from a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from sparkfleet.actions.action import Action, HostAction
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.model import Value
from sparkfleet.playbook.arguments import Argument, convert_argument, list_arguments
from sparkfleet.playbook.syntax import Task, strip_positions
from sparkfleet.spelling import suggest_similar
from sparkfleet.templating import holds_template, render_value

CLASSES = {  # by action name: the module under `sparkfleet.actions`, and the class
    "arm_guard": ("deploy.arm_guard", "ArmGuard"),
    "assert": ("builtin.assert_", "Assert"),
    "check_logs": ("check.check_logs", "CheckLogs"),
    "collective": ("check.collective", "CheckCollective"),
    "command": ("builtin.command", "RunCommand"),
    "copy": ("builtin.copy", "Copy"),
    "debug": ("builtin.debug", "Debug"),
    "drift": ("check.drift", "Drift"),
    "drop_caches": ("deploy.drop_caches", "DropCaches"),
    "file": ("builtin.file", "ManageFile"),
    "gather_facts": ("run.gather_facts", "GatherFacts"),
    "gpu_clock": ("check.gpu_clock", "GpuClock"),
    "gpu_clock_limit": ("deploy.gpu_clock_limit", "GpuClockLimit"),
    "health": ("check.health", "CheckHealth"),
    "image": ("stage.image", "StageImage"),
    "join_gate": ("deploy.join_gate", "JoinGate"),
    "leave_gateway": ("gateway.leave", "LeaveGateway"),
    "links_gate": ("check.links_gate", "LinksGate"),
    "lock": ("run.lock", "Lock"),
    "memory_fit": ("check.memory_fit", "MemoryFit"),
    "model_shape": ("check.model_shape", "ModelShape"),
    "model_tokenizer": ("check.model_tokenizer", "ModelTokenizer"),
    "pause": ("builtin.pause", "Pause"),
    "preflight": ("check.preflight", "Preflight"),
    "prepare_collective": ("check.prepare_collective", "PrepareCollective"),
    "prepare_gpu_clock": ("check.prepare_gpu_clock", "PrepareGpuClock"),
    "prewarm": ("deploy.prewarm", "Prewarm"),
    "receipt": ("run.receipt", "WriteReceipt"),
    "recover": ("run.recover", "Recover"),
    "render": ("deploy.render", "Render"),
    "replace_deployment": ("deploy.replace_deployment", "ReplaceDeployment"),
    "serve": ("deploy.serve", "Serve"),
    "set": ("builtin.set_", "Set"),
    "shell": ("builtin.shell", "RunShell"),
    "smoke": ("check.smoke", "Smoke"),
    "stage_weights": ("stage.stage_weights", "StageWeights"),
    "start_ray": ("deploy.start_ray", "StartRay"),
    "stop_deployment": ("deploy.stop_deployment", "StopDeployment"),
    "survey": ("run.survey", "SurveyHosts"),
    "template": ("builtin.template", "Template"),
    "user": ("builtin.user", "User"),
    "wait_http": ("builtin.wait_http", "WaitHttp"),
    "wait_ready": ("deploy.wait_ready", "WaitReady"),
    "wait_tcp": ("builtin.wait_tcp", "WaitTcp"),
}
INTERNAL = {  # for the plays of commands; a playbook file cannot name them
    "gateway_check": ("gateway.check", "CheckGateway"),
    "gateway_drift": ("gateway.drift", "GatewayDrift"),
    "gateway_render": ("gateway.render", "RenderGateway"),
    "gateway_start": ("gateway.start", "StartGateway"),
    "gateway_stop": ("gateway.stop", "StopGateway"),
    "locate_weights": ("stage.locate_weights", "LocateWeights"),
    "select_fabric": ("check.select_fabric", "SelectFabric"),
}


class Vocabulary(Mapping[str, type[Action[Any]]]):
    """The actions by name; each is imported when a playbook uses it.

    Importing all of them takes longer than running ten commands.
    """

    def __getitem__(self, word: str) -> type[Action[Any]]:
        module, name = CLASSES.get(word) or INTERNAL[word]
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
    """Return whether an action works on the cluster as a whole, not on each host separately."""
    return not issubclass(ACTIONS[action], HostAction)


def takes_become(action: str) -> bool:
    """Return whether an action can run as another user."""
    return "become" in list_arguments(ACTIONS[action].args_type)


def runs_once(action: str) -> bool:
    """Return whether an action runs once for all hosts of a play."""
    return ACTIONS[action].once


def check_arguments(action: str, args: Mapping[str, Value], where: Where | None) -> list[Problem]:
    """Return the problems of a task's arguments that can be found before the run."""
    late = {name for name, value in args.items() if holds_template(value.data)}
    return _read_arguments(action, args, where, late)[1]


def _read_arguments(
    action: str, args: Mapping[str, Value], where: Where | None, late: set[str]
) -> tuple[Any, list[Problem]]:
    """Return the action's arguments and their problems; those in `late` are not known yet."""
    kind = ACTIONS[action]
    declared = list_arguments(kind.args_type)
    problems = list(_check_argument_names(action, args, declared, where))
    ready = {}
    for name in args.keys() & declared.keys() - late:
        try:
            ready[name] = convert_argument(args[name].data, declared[name].hint)
        except ValueError as error:
            problems.append(Problem(message=f"{action}: {name}: {error}", where=args[name].where))
    if problems or late:
        return None, problems
    instance = kind.args_type(**ready)
    return instance, [
        Problem(message=f"{action}: {text}", where=where) for text in kind.validate_args(instance)
    ]


def _check_argument_names(
    action: str, args: Mapping[str, Value], declared: Mapping[str, Argument], where: Where | None
) -> Iterator[Problem]:
    for name, value in args.items():
        if name not in declared:
            hint = (
                suggest_similar(str(name), list(declared))
                if declared
                else f"{action} takes no arguments"
            )
            message = f"{action} has no argument {name!r}"
            yield Problem(message=message, where=value.where or where, hint=hint)
    for argument in declared.values():
        if argument.needed and argument.name not in args:
            message = f"{action} requires the argument {argument.name!r}"
            yield Problem(message=message, where=where, hint=argument.help)


def build_action(task: Task, variables: Mapping[str, Mapping[str, Any]]) -> Action[Any]:
    """Return the action of `task` with its arguments rendered; raises PlaybookError.

    For an action on each host, `variables` has those of every host by name; for an action on the
    cluster, those of its head.
    """
    kind = ACTIONS[task.action]
    if holds_template(strip_positions(task.args)):
        rendered = {
            host: _render_arguments(task, host_variables)
            for host, host_variables in variables.items()
        }
    else:
        rendered = dict.fromkeys(variables, _render_arguments(task, {}))
    action = kind(rendered if issubclass(kind, HostAction) else next(iter(rendered.values())))
    action.where = task.where
    return action


def _render_arguments(task: Task, variables: Mapping[str, Any]) -> Any:
    args = {}
    for name, value in task.args.items():
        data = render_value(value.data, variables, where=value.where, error=PlaybookError)
        if data is not None:
            args[name] = Value(data=data, where=value.where)
    instance, problems = _read_arguments(task.action, args, task.where, set())
    if problems:
        raise PlaybookError.of(problems)
    return instance
