"""Jinja's sandbox with limits; imported at the first template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jinja2 import StrictUndefined, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sparkfleet import template_limits as limits
from sparkfleet.jinja_filters import FILTERS, TESTS, lookup

N = TypeVar("N", bound=nodes.Node)
COUNT, MEASURE, CONCAT = "sparkfleet-count", "sparkfleet-measure", "sparkfleet-concat"
LITERALS = (nodes.List, nodes.Tuple, nodes.Dict)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The environment of all templates: sandboxed, strict, and with limits on what they take.

    With `html`, each value is escaped for HTML.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})
    concat = staticmethod(limits.join_pieces)

    def __init__(self, *, html: bool = False) -> None:
        super().__init__(
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
            autoescape=html,
        )
        self.filters.update(FILTERS)
        self.filters = {name: limits.guard(name, each) for name, each in self.filters.items()}
        self.filters |= {
            COUNT: limits.count_items,
            MEASURE: limits.measure,
            CONCAT: lambda parts: limits.join_pieces(map(str, parts)),
        }
        self.tests.update(TESTS)
        self.globals["lookup"] = lookup
        del self.globals["lipsum"]

    def call(self, context: Context, obj: Any, /, *args: Any, **options: Any) -> Any:
        """Call what a template calls: a method of text, a macro, a function."""
        name = getattr(obj, "__name__", "")
        owner = getattr(obj, "__self__", None)
        own = [owner] if isinstance(owner, str) else []
        limits.check_growth(name, [*own, *args], options)
        return limits.measure(super().call(context, obj, *args, **options))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Check the template of `str.format`, which the sandbox replaces."""
        formatting = super().wrap_str_format(value)
        if formatting is not None:
            limits.check_growth("format", [value.__self__], {})
        return formatting

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check an operator before and after."""
        limits.check_operator(operator, left, right)
        return limits.measure(super().call_binop(context, operator, left, right))

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,  # noqa: FBT001, FBT002 - Jinja's signature
    ) -> str:
        return super()._generate(_add_limits(source), name, filename, defer_init)


def _add_limits(node: N) -> N:
    """Return a parsed template in which loops count, and literals and ``~`` are measured."""
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, name, _limit(value))
        elif isinstance(value, list):
            setattr(
                node,
                name,
                [_limit(item) if isinstance(item, nodes.Node) else item for item in value],
            )
    if isinstance(node, nodes.For):
        node.iter = _filter(COUNT, node.iter)
    return node


def _limit(node: nodes.Node) -> nodes.Node:
    node = _add_limits(node)
    if isinstance(node, nodes.Concat):
        return _filter(CONCAT, nodes.List(node.nodes, lineno=node.lineno))
    if isinstance(node, LITERALS) and getattr(node, "ctx", "load") == "load":
        return _filter(MEASURE, node)
    return node


def _filter(name: str, node: Any) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
