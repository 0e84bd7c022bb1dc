"""The source of an action: the functions that its steps reach, and the state that these read."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from sparkfleet.actions.action import Action
from sparkfleet.actions.run_state import RunState
from sparkfleet.playbook.vocabulary import ACTIONS, INTERNAL

FIELDS = frozenset(item.name for item in fields(RunState))
RUN = ("run", "run_context")  # the parameter that is the context of the run


def list_actions() -> list[type[Action[Any]]]:
    """Return all actions, also those that a playbook file cannot name."""
    return [ACTIONS[name] for name in (*ACTIONS, *INTERNAL)]


def list_methods(action: type[Action[Any]]) -> list[str]:
    """Return the names of an action's own methods and of those that it inherits."""
    return sorted({name for part in action.__mro__[:-2] for name in vars(part)})


def find_reached_code(
    action: type[Action[Any]], methods: Iterable[str], *, callbacks: bool = True
) -> list[ast.AST]:
    """Return the functions below `sparkfleet.actions` that `methods` of an action reach.

    Without `callbacks`, not those that only a lambda calls, which runs later.
    """
    queue = [function for name in methods for function in _find_methods(action, name)]
    reached: dict[FunctionType, ast.AST] = {}
    while queue:
        function = queue.pop()
        if function in reached or not function.__module__.startswith("sparkfleet.actions"):
            continue
        reached[function] = _parse_function(function, callbacks=callbacks)
        for node in ast.walk(reached[function]):
            queue += _resolve_name(node, function, action)
    return list(reached.values())


def list_optional_reads(code: Iterable[ast.AST]) -> set[str]:
    """Return the fields that are read as `run.state.FIELD`, which may be None."""
    return {
        node.attr
        for node in _list_attributes(code)
        if node.attr in FIELDS
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "state"
    }


def list_required_reads(code: Iterable[ast.AST]) -> set[str]:
    """Return the fields that are read as `run.FIELD`, which an earlier task must have set."""
    return {
        node.attr
        for node in _list_attributes(code)
        if node.attr in FIELDS and isinstance(node.value, ast.Name) and node.value.id in RUN
    }


def _list_attributes(code: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    for tree in code:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def _find_methods(action: type[Action[Any]], name: str) -> Iterator[FunctionType]:
    """Yield the definitions of a method or property in an action and in what it inherits."""
    for part in action.__mro__:
        member = vars(part).get(name)
        member = member.fget if isinstance(member, property) else member
        member = getattr(member, "__func__", member)
        if isinstance(member, FunctionType):
            yield member


def _resolve_name(
    node: ast.AST, function: FunctionType, action: type[Action[Any]]
) -> Iterator[FunctionType]:
    if isinstance(node, ast.Name):
        target = function.__globals__.get(node.id)
        if isinstance(target, FunctionType):
            yield target
    if not isinstance(node, ast.Attribute):
        return
    if isinstance(node.value, ast.Call) or ast.unparse(node.value) == "self":  # a Call: super()
        yield from _find_methods(action, node.attr)
    elif isinstance(node.value, ast.Name):
        owner = function.__globals__.get(node.value.id)
        target = getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        if isinstance(target, FunctionType):
            yield target


class _LambdaRemover(ast.NodeTransformer):
    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return ast.Constant(value=None)


@cache
def _parse_function(function: FunctionType, *, callbacks: bool) -> ast.AST:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    if callbacks:
        return tree
    stripped: ast.AST = _LambdaRemover().visit(tree)
    return stripped
