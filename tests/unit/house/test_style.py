"""Bounds of size, imports and names; ruff checks the complexity (pyproject.toml)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tests.source import PACKAGE, list_classes, list_functions, list_nodes, parse_package

CHECKOUT = PACKAGE.parent
MAX_LINES = 400
MAX_BODY = 40
MAX_POSITIONAL = 4
MAX_IMPORTS = 20
MAX_MODULES = 20  # of a folder
MAX_PACKED = 5  # tuple assignments per 1000
SHORTEST = 60  # characters of a function that is not written twice
MAX_PRONOUNS = 15  # of 1000 parameters and variables
MAX_ONE_WORD = 70  # of 1000 functions of modules
PRONOUNS = {
    *("one", "found", "seen", "told", "tell", "own", "known", "wanted", "asked", "said", "given"),
    *("other", "others", "made", "x"),
}

# Names that several modules define, and why.
SHARED_NAMES = {
    "main": "each program for a host starts with it",
    "check": "receiver and place check their requests, each alone on a host",
}


def _measure_body(node: ast.FunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _list_imports(nodes: Iterable[ast.AST]) -> set[str]:
    modules = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return modules - {"__future__"}


def _name_module(path: str) -> str:
    return f"sparkfleet.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")


def _find_targets(nodes: Iterable[ast.AST], modules: Collection[str]) -> set[str]:
    """Return the modules of the package that a module imports, for type checking too."""
    targets = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= {name if name in modules else node.module for name in members}
        elif isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
    return targets.intersection(modules)


def _find_cycle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return the modules that import each other; empty if there are none."""
    left = set(edges)
    while True:
        imported = set().union(*(edges[name] & left for name in left))
        inner = {name for name in left if edges[name] & left and name in imported}
        if inner == left:
            return sorted(left)
        left = inner


def test_modules_are_small() -> None:
    sizes = {
        str(path.relative_to(PACKAGE)): len(path.read_text().splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: size for name, size in sizes.items() if size > MAX_LINES} == {}


def test_function_bodies_are_small() -> None:
    assert [
        place for place, node in list_functions().items() if _measure_body(node) > MAX_BODY
    ] == []


def test_functions_take_few_positional_parameters() -> None:
    crowded = [
        place
        for place, node in list_functions().items()
        if len([arg for arg in node.args.args if arg.arg not in ("self", "cls")]) > MAX_POSITIONAL
    ]
    assert crowded == []


def test_modules_import_few_others() -> None:
    crowded = {
        name for name, nodes in list_nodes().items() if len(_list_imports(nodes)) > MAX_IMPORTS
    }
    assert crowded == set()


def test_folders_hold_few_modules() -> None:
    folders = Counter(
        str(Path(name).parent) for name in parse_package() if not name.endswith("__init__.py")
    )
    assert {name: count for name, count in folders.items() if count > MAX_MODULES} == {}


def test_modules_do_not_import_each_other() -> None:
    names = {_name_module(path) for path in parse_package()}
    edges = {
        _name_module(path): _find_targets(nodes, names) - {_name_module(path)}
        for path, nodes in list_nodes().items()
    }
    assert _find_cycle(edges) == []


def test_a_public_function_of_a_module_has_a_name_of_its_own() -> None:
    names = [
        (node.name, name.endswith("tasks.py"))
        for name, tree in parse_package().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    tasks = {name for name, is_task in names if is_task}  # named by their group and function
    counts = Counter([*tasks, *(name for name, is_task in names if not is_task)])
    repeated = {name for name, count in counts.items() if count > 1}
    assert repeated - SHARED_NAMES.keys() == set()


def test_no_function_of_a_module_is_written_twice() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in parse_package().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                text = "\n".join(map(ast.unparse, (node.args, *body)))
                places.setdefault(text, []).append(f"{name}: {node.name}")
    repeated = [found for text, found in places.items() if len(found) > 1 and len(text) > SHORTEST]
    assert repeated == []


def test_a_class_has_a_name_of_its_own() -> None:
    counts = Counter(list_classes())
    assert {name for name, count in counts.items() if count > 1} == set()


def test_assignments_are_one_a_line() -> None:
    assignments = [
        node for nodes in list_nodes().values() for node in nodes if isinstance(node, ast.Assign)
    ]
    packed = [
        node
        for node in assignments
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
    ]
    assert 1000 * len(packed) / len(assignments) <= MAX_PACKED


def test_functions_have_names_of_a_verb_and_a_noun() -> None:
    names = [
        node.name
        for tree in parse_package().values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    short = [name for name in names if "_" not in name.strip("_")]
    assert 1000 * len(short) / len(names) <= MAX_ONE_WORD


def test_variables_are_named_after_what_they_hold() -> None:
    names = [name for nodes in list_nodes().values() for name in _list_variables(nodes)]
    pronouns = Counter(name for name in names if name in PRONOUNS)
    assert 1000 * pronouns.total() / len(names) <= MAX_PRONOUNS, pronouns


def test_every_exemption_of_a_linter_gives_its_reason() -> None:
    """As `# noqa: S311 - no secret` and `# type: ignore[misc]  # a double`."""
    reasoned = re.compile(r"# noqa: [A-Z0-9, ]+ - \w|# type: ignore\[[a-z-]+\] +# \w")
    bare = [
        f"{path.relative_to(CHECKOUT)}: {line.strip()}"
        for folder in ("sparkfleet", "tests", "benchmarks", "demo")
        for path in sorted(CHECKOUT.joinpath(folder).rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"# (?:noqa|type: ignore)", line)
        and not reasoned.search(line)
        and "re.compile" not in line
    ]
    assert bare == []


def _list_variables(nodes: Iterable[ast.AST]) -> list[str]:
    return [
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
