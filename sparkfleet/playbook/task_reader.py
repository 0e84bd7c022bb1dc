"""Read one task of a playbook."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkfleet.actions.conditions import Condition
from sparkfleet.model import Value
from sparkfleet.playbook.arguments import list_arguments
from sparkfleet.playbook.keywords import FQCN, TASK_KEYS
from sparkfleet.playbook.reader import InvalidNode, PlaybookReader
from sparkfleet.playbook.syntax import Task
from sparkfleet.playbook.vocabulary import ACTIONS, check_arguments, works_on_cluster
from sparkfleet.spelling import suggest_similar
from sparkfleet.yaml import positions

INCLUDED = {"cluster_up": "cluster-up.yml"}  # words that include the tasks of a playbook
RETRIES = 3  # after the first attempt, with `until` but without `retries`; Ansible's default
DELAY = 5.0  # seconds; Ansible's default


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Keywords that a task inherits from its blocks and its play."""

    when: tuple[Condition, ...] = ()
    tags: frozenset[str] = frozenset()
    become: bool | None = None


class TaskReader(PlaybookReader):
    """Reads tasks."""

    def within(self, node: positions.Map, inherited: Inherited) -> Inherited:
        """Return `inherited` with what `node` adds for itself and its tasks."""
        become = self.flag(node, "become")
        return replace(
            inherited,
            when=inherited.when + self.conditions(node, "when"),
            tags=inherited.tags | frozenset(self.strings(node, "tags")),
            become=inherited.become if become is None else become,
        )

    def task(self, node: positions.Map, inherited: Inherited) -> Task:
        """Return a task; raises InvalidNode if it has no known action."""
        key, action = self._action(node)
        inside = self.within(node, inherited)
        args = self._arguments(node, key, action, inside)
        self.problems += check_arguments(action, args, node.key(key).where)
        until = self.conditions(node, "until")
        return Task(
            name=self.text(node, "name") or action,
            action=action,
            args=args,
            when=inside.when,
            tags=inside.tags,
            register=self._register(node),
            retries=int(self.number(node, "retries", RETRIES if until else 0)),
            delay=self.number(node, "delay", DELAY),
            until=until,
            no_log=bool(self.flag(node, "no_log")),
            run_once=self._run_once(node, action),
            where=node.where,
        )

    def _action(self, node: positions.Map) -> tuple[str, str]:
        """Return the key of the task's action as written, and its name."""
        names = {str(key): str(key).removeprefix(FQCN) for key in node.entries}
        actions = {key: name for key, name in names.items() if name in ACTIONS}
        self.keys(node, (*TASK_KEYS, *INCLUDED, *ACTIONS, *actions), "a task")
        if len(actions) == 1:
            return next(iter(actions.items()))
        if actions:
            self.note(
                f"a task must have exactly one action (got {' and '.join(actions)})", node.where
            )
        elif all(key in TASK_KEYS for key in names):
            self.note("this task has no action", node.where, suggest_similar("", list(ACTIONS)))
        raise InvalidNode

    def _arguments(
        self, node: positions.Map, key: str, action: str, inherited: Inherited
    ) -> dict[str, Value]:
        kind = ACTIONS[action]
        values: dict[str, Value] = {}
        given = node.get(key)
        extra = node.get("args")
        if isinstance(given, positions.Map) and kind.rest:
            values[kind.rest] = _node_value(given)
        elif isinstance(given, positions.Map):
            values |= self._entries(given)
        elif given is not None and given.data is not None:
            values[self._bare(given, action)] = _node_value(given)
        if extra is not None and extra.data is not None:
            values |= self._entries(self.mapping(extra, "args"))
        for node_of in (given, extra):
            if node_of is not None:
                self.template(node_of)
        self._inherit_become(node, action, inherited, values)
        return values

    def _inherit_become(
        self, node: positions.Map, action: str, inherited: Inherited, values: dict[str, Value]
    ) -> None:
        if "become" in list_arguments(ACTIONS[action].args_type):
            if inherited.become is not None:
                values.setdefault("become", Value(data=inherited.become, where=node.where))
        elif self.flag(node, "become"):
            where = node.key("become").where
            self.note(f"{action} does not support become", where)

    def _entries(self, node: positions.Map) -> dict[str, Value]:
        return {
            str(key.data): _node_value(value)
            for key, value in node.items()
            if value.data is not None
        }

    def _bare(self, node: positions.Node, action: str) -> str:
        """Return the argument that a string or list after the action sets."""
        bare = ACTIONS[action].bare
        for kind, name in bare.items():
            if isinstance(node.data, kind):
                return name
        if isinstance(node.data, str) or not bare:
            hint = f"write: {action}: {{name: value, ...}}"
            self.note(f"the arguments of {action} must be a mapping", node.where, hint)
        else:
            self.note(f"{action}: {node.data!r} is not a string", node.where, "put it in quotes")
        raise InvalidNode

    def _register(self, node: positions.Map) -> str | None:
        name = self.text(node, "register")
        if name and not name.isidentifier():
            where = node.key("register").where
            self.note(f"{name!r} is not a valid variable name", where, "use letters, digits and _")
        return name or None

    def _run_once(self, node: positions.Map, action: str) -> bool:
        once = bool(self.flag(node, "run_once"))
        if once and works_on_cluster(action):
            where = node.key("run_once").where
            self.note(f"{action} works on the whole cluster: remove run_once", where)
        return once


def _node_value(node: positions.Node) -> Value:
    return Value(data=node.data, where=node.where)
