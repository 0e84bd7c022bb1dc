"""The package's source, parsed once for all tests that read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "sparkfleet"


@cache
def parse_package() -> Mapping[str, ast.Module]:
    """Return each module of the package by its path below it."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def list_imports() -> Mapping[str, tuple[str, ...]]:
    """Return what each module imports, wherever in it: modules, and names with their module."""
    return {name: tuple(_imports(tree)) for name, tree in parse_package().items()}


@cache
def list_functions() -> Mapping[str, ast.FunctionDef]:
    """Return each function and method by `path:line name`."""
    return {
        f"{name}:{node.lineno} {node.name}": node
        for name, tree in parse_package().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
