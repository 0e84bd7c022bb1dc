"""Commands in the documents parse, links and paths exist, and drawings match the code."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.parser import Parser

from sparkfleet.cli.tasks import namespace
from tests.source import list_classes
from tests.unit.house.test_layers import LAYERS

CHECKOUT = Path(__file__).parents[3]
PACKAGE = CHECKOUT / "sparkfleet"
PARSER = Parser(contexts=namespace.to_contexts())
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")])
ARCHITECTURE = CHECKOUT / "docs" / "architecture.md"
HOUSE = [ARCHITECTURE, CHECKOUT / "docs" / "glossary.md", CHECKOUT / "CONTRIBUTING.md"]
LINK = re.compile(r"\]\((?!http)([^)#]*)(?:#([^)]*))?\)")
TYPED = re.compile(r"(?:invoke|sparkfleet) ([a-z]+\.[a-z]+[^`|>#<]*)")
NAMED_PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")
NAMED_CLASS = re.compile(r"`([A-Z][A-Za-z]*[a-z][A-Za-z]*)`")


def _find_anchors(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    bare = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in bare}


def _find_commands(document: Path) -> Iterator[str]:
    for line in document.read_text().splitlines():
        for words in TYPED.findall(line):
            command = words.split("   ")[0].strip().rstrip(".,;:)")
            if "--help" not in command:
                yield command


def _read_block(document: Path, title: str) -> list[str]:
    """Return the lines of the first code block below a title."""
    section = document.read_text().split(f"## {title}\n")[1]
    return section.split("```\n")[1].splitlines()


def _read_tree() -> Iterator[str]:
    """Yield the folders of the tree in architecture.md by their path."""
    above: list[str] = []
    for line in _read_block(ARCHITECTURE, "The tree"):
        name = line.split()[0].rstrip("/")
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], name]
        yield "/".join(above)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for name, anchor in LINK.findall(document.read_text()):
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), name
        assert not anchor or anchor in _find_anchors(target), f"{name}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_can_be_typed(document: Path) -> None:
    for command in _find_commands(document):
        PARSER.parse_argv(shlex.split(command))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_of_the_checkout_exists(document: Path) -> None:
    missing = [
        path
        for path in NAMED_PATH.findall(document.read_text())
        if (path.startswith("sparkfleet/") or document in HOUSE)
        and "AREA" not in path
        and not (CHECKOUT / path).exists()
        and not (PACKAGE / path).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("document", HOUSE, ids=lambda path: path.name)
def test_every_class_that_a_document_names_exists(document: Path) -> None:
    named = set(NAMED_CLASS.findall(document.read_text()))
    assert named - {*list_classes(), "InThisForm"} == set()


def test_the_tree_has_every_folder_of_the_package() -> None:
    tree = {path for path in _read_tree() if path.split("/")[0] == "sparkfleet"}
    folders = {path.parent for path in PACKAGE.rglob("*") if path.is_file()}
    names = {folder.relative_to(CHECKOUT).as_posix() for folder in folders}
    assert tree == {name for name in names if "__pycache__" not in name and "/_data" not in name}


def test_the_tree_has_every_folder_of_tests_and_playbooks() -> None:
    tree = set(_read_tree())
    folders = [path for top in ("tests", "playbooks") for path in (CHECKOUT / top).iterdir()]
    names = {path.relative_to(CHECKOUT).as_posix() for path in folders if path.is_dir()}
    assert {name for name in names if "__pycache__" not in name} - tree == set()
    assert [name for name in tree if not (CHECKOUT / name).is_dir()] == []


def test_the_drawing_of_the_layers_is_that_of_the_imports() -> None:
    drawn = [
        tuple(re.split(r"\s{3,}", line)[0].split(", "))
        for line in _read_block(ARCHITECTURE, "The layers")
    ]
    assert [sorted(names) for names in drawn] == [sorted(names) for names in reversed(LAYERS)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("playbooks/cluster-up.yml", "links_gate:"),
        ("sparkfleet/links/checks/mtu.py", "check_mtu"),
        ("sparkfleet/launch/deployment/commands.py", '"--headless"'),
        ("sparkfleet/doctor/signatures/tokenizer.py", "tokenizer-missing"),
        ("sparkfleet/fit/kv_blocks.py", "BLOCK = 16"),
        ("sparkfleet/cli/signals.py", "SIGTERM"),
        ("templates/haproxy.cfg.j2", "frontend"),
        ("sparkfleet/launch/watching/breaker.py", "class Decision"),
        ("sparkfleet/cli/cluster/watching/relaunch.py", "run_playbook"),
        ("sparkfleet/actions/stage/stage_weights.py", "class StageWeights"),
        ("sparkfleet/lab/faults/effects.py", "set_cable"),
    ],
)
def test_a_feature_is_where_the_architecture_says(file: str, text: str) -> None:
    assert f"`{file}`" in ARCHITECTURE.read_text()
    assert text in (CHECKOUT / file).read_text()


def test_a_task_is_where_the_architecture_says() -> None:
    said = ARCHITECTURE.read_text().split("## The tree")[0]
    lost = [
        name
        for name in namespace.task_names
        if not (PACKAGE / "cli" / f"{name.replace('.', '/')}.py").exists()
        and not (CHECKOUT / "playbooks" / f"{name.replace('.', '-')}.yml").exists()
        and f"`{name}`" not in said
        and f"`{name.split('.')[0]}.*`" not in said
    ]
    assert lost == []


def test_the_life_of_a_cluster_up_has_the_tasks_of_its_playbook_in_order() -> None:
    life = ARCHITECTURE.read_text().split("| task of the playbook |")[1].split("\n\n")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in life.splitlines()[2:]]
    named = [name.removeprefix("later: ") for row in rows for name in row.split("; ")]
    playbook = (CHECKOUT / "playbooks/cluster-up.yml").read_text()
    tasks = re.findall(r"^ {4}- name: (.+)$", playbook, re.MULTILINE)
    assert len(tasks) > 30
    later = {row.split("; later: ")[1] for row in rows if "; later: " in row}
    assert [name for name in named if name not in later] == [
        name for name in tasks if name not in later
    ]
    assert later <= set(tasks)


@pytest.mark.parametrize("area", ["cluster", "gateway", "links", "recipes", "serve", "weights"])
def test_a_task_only_calls_the_module_that_does_its_work(area: str) -> None:
    tree = ast.parse((PACKAGE / "cli" / area / "tasks.py").read_text())
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
    assert functions
    for node in functions:
        *imports, last = node.body[1:]
        assert isinstance(last, ast.Return), node.name
        assert imports, node.name
        assert all(isinstance(step, ast.ImportFrom) for step in imports), node.name


def test_the_table_of_the_readme_has_every_task() -> None:
    table = [line for line in (CHECKOUT / "README.md").read_text().splitlines() if line[:2] == "| "]
    named = set()
    for line in table:
        group = ""
        for word in re.findall(r"`([a-z]*(?:\.[a-z]+)?)[ `]", line.split("|")[1]):
            group = word.split(".")[0] or group
            named.add(f"{group}.{word.split('.')[1]}" if "." in word else word)
    missing = {name for name in namespace.task_names if name not in named}
    assert missing == set()


PRIVATE = re.compile(
    r"\bfacts, (section|failure)|\bcase C\d|\bfailure \d|(engineering|product)\.md"
)


@pytest.mark.parametrize("folder", ["docs", "inventories", "playbooks", "sparkfleet", "templates"])
def test_reasons_refer_to_sources_that_every_user_has(folder: str) -> None:
    files = [
        path
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in (".md", ".yml", ".py", ".j2")
    ]
    found = [
        f"{path.relative_to(CHECKOUT)}: {match[0]}"
        for path in files
        for match in PRIVATE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
