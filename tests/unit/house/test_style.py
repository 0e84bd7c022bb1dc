"""The bounds that engineering sets: small functions, small modules, few positional parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "sparkfleet"
MOST_LINES = 400
MOST_BODY = 40
MOST_POSITIONAL = 4


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}", node


def _body(node: ast.FunctionDef) -> int:
    first, *rest = node.body
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = rest if documented else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_modules_are_small() -> None:
    sizes = {
        str(path.relative_to(PACKAGE)): len(path.read_text().splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}


def test_function_bodies_are_small() -> None:
    assert [place for place, node in _functions() if _body(node) > MOST_BODY] == []


def test_functions_take_few_positional_parameters() -> None:
    crowded = [
        place
        for place, node in _functions()
        if len([arg for arg in node.args.args if arg.arg not in ("self", "cls")]) > MOST_POSITIONAL
    ]
    assert crowded == []
