"""Reading one task."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkfleet import yamlpos
from sparkfleet.actions.conditions import Condition
from sparkfleet.model import Value
from sparkfleet.playbook.arguments import arguments
from sparkfleet.playbook.keywords import FQCN, TASK_KEYS
from sparkfleet.playbook.reader import Reader, Wrong
from sparkfleet.playbook.syntax import Task
from sparkfleet.playbook.vocabulary import ACTIONS, check, works_on_cluster
from sparkfleet.spelling import similar

INCLUDED = {"cluster_up": "cluster-up.yml"}  # words that stand for the tasks of a playbook
RETRIES = 3  # after the first attempt, where `until` is given and `retries` is not; Ansible's
DELAY = 5.0  # s; Ansible's


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a task takes over from the blocks and the play around it."""

    when: tuple[Condition, ...] = ()
    tags: frozenset[str] = frozenset()
    become: bool | None = None


class TaskReader(Reader):
    """Reads tasks."""

    def within(self, node: yamlpos.Map, around: Around) -> Around:
        """Return `around` with what `node` adds for itself and all inside it."""
        become = self.flag(node, "become")
        return replace(
            around,
            when=around.when + self.conditions(node, "when"),
            tags=around.tags | frozenset(self.words(node, "tags")),
            become=around.become if become is None else become,
        )

    def task(self, node: yamlpos.Map, around: Around) -> Task:
        """Return a task; raises Wrong where it has no action that is known."""
        key, action = self._action(node)
        inside = self.within(node, around)
        args = self._arguments(node, key, action, inside)
        self.problems += check(action, args, node.key(key).where)
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

    def _action(self, node: yamlpos.Map) -> tuple[str, str]:
        """Return the key of the task's action as it is written, and its name."""
        names = {str(key): str(key).removeprefix(FQCN) for key in node.entries}
        found = {key: name for key, name in names.items() if name in ACTIONS}
        self.keys(node, (*TASK_KEYS, *INCLUDED, *ACTIONS, *found), "a task")
        if len(found) == 1:
            return next(iter(found.items()))
        if found:
            self.note(f"a task has one action, this one has {' and '.join(found)}", node.where)
        elif all(key in TASK_KEYS for key in names):
            self.note("this task has no action", node.where, similar("", list(ACTIONS)))
        raise Wrong

    def _arguments(
        self, node: yamlpos.Map, key: str, action: str, around: Around
    ) -> dict[str, Value]:
        kind, found = ACTIONS[action], dict[str, Value]()
        given, extra = node.get(key), node.get("args")
        if isinstance(given, yamlpos.Map) and kind.rest:
            found[kind.rest] = _value(given)
        elif isinstance(given, yamlpos.Map):
            found |= self._entries(given)
        elif given is not None and given.data is not None:
            found[self._bare(given, action)] = _value(given)
        if extra is not None and extra.data is not None:
            found |= self._entries(self.mapping(extra, "args"))
        for node_of in (given, extra):
            if node_of is not None:
                self.template(node_of)
        if "become" in arguments(kind.args_type):
            if around.become is not None:
                found.setdefault("become", Value(data=around.become, where=node.where))
        elif self.flag(node, "become"):
            where = node.key("become").where
            self.note(f"{action} does its work as the inventory's user", where)
        return found

    def _entries(self, node: yamlpos.Map) -> dict[str, Value]:
        return {
            str(key.data): _value(value) for key, value in node.items() if value.data is not None
        }

    def _bare(self, node: yamlpos.Node, action: str) -> str:
        """Return the argument that a text or a list after the action stands for."""
        bare = ACTIONS[action].bare
        for kind, name in bare.items():
            if isinstance(node.data, kind):
                return name
        if isinstance(node.data, str) or not bare:
            hint = f"write: {action}: {{name: value, ...}}"
            self.note(f"the arguments of {action} are a mapping", node.where, hint)
        else:
            self.note(f"{action}: {node.data!r} is no text", node.where, "put it in quotes")
        raise Wrong

    def _register(self, node: yamlpos.Map) -> str | None:
        name = self.text(node, "register")
        if name and not name.isidentifier():
            where = node.key("register").where
            self.note(f"{name!r} is no name for a variable", where, "letters, digits and _")
        return name or None

    def _run_once(self, node: yamlpos.Map, action: str) -> bool:
        once = bool(self.flag(node, "run_once"))
        if once and works_on_cluster(action):
            where = node.key("run_once").where
            self.note(f"{action} is for the whole cluster: leave run_once out", where)
        return once


def _value(node: yamlpos.Node) -> Value:
    return Value(data=node.data, where=node.where)
