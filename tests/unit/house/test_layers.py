"""The arrows between our packages point down only, and heavy libraries have one importer each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.source import PACKAGE, list_imports

LAYERS = (
    ("command_name",),
    (
        "errors",
        "garbage_collection",
        "quantities",
        "regular_expressions",
        "safe_paths",
        "spelling",
        "values",
    ),
    ("model", "resources", "unreadable_files"),
    ("verdicts",),
    ("commands", "variables", "vllm", "yaml"),
    ("jinja_filters", "report", "sandbox", "template_limits", "templating"),
    ("inventory", "recipes", "remote"),
    ("facts",),
    ("fit", "links", "weights"),
    ("launch",),
    ("doctor",),
    ("page",),
    ("actions",),
    ("playbook",),
    ("lab",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
DOORS = {
    "fabric": {"remote/ssh.py", "remote/host_keys.py"},
    "paramiko": {"remote/ssh.py", "remote/host_keys.py", "remote/identities.py"},
    "ray": {"onhost/deployment/ray_nodes.py"},
}


def _ours(imports: Iterable[str]) -> Iterator[str]:
    for name in imports:
        package, _, rest = name.partition(".")
        if package == "sparkfleet" and rest:
            yield rest.split(".")[0]


def test_imports_point_down_only() -> None:
    upward = [
        f"{name} imports {target}"
        for name, imports in list_imports().items()
        for target in set(_ours(imports))
        if (own := name.split("/")[0].removesuffix(".py")) in RANK
        and target in RANK
        and RANK[target] > RANK[own]
    ]
    assert upward == []


def test_every_package_has_a_layer() -> None:
    names = {name.split("/")[0].removesuffix(".py") for name in list_imports()}
    assert names - {"__init__", "__main__", "onhost"} == set(RANK)


@pytest.mark.parametrize("library", DOORS)
def test_a_heavy_library_has_one_importer(library: str) -> None:
    users = {
        name
        for name, imports in list_imports().items()
        if any(used.split(".")[0] == library for used in imports)
    }
    assert users == DOORS[library]


def test_invoke_is_imported_by_the_command_line_only() -> None:
    users = {
        name
        for name, imports in list_imports().items()
        if any(used.split(".")[0] == "invoke" for used in imports)
    }
    assert users
    assert all(name.startswith("cli/") for name in users)


def test_programs_for_hosts_import_the_standard_library_and_each_other_only() -> None:
    allowed = set(sys.stdlib_module_names) | {"ray", "torch"}
    foreign = [
        f"{name} imports {used}"
        for name, imports in list_imports().items()
        if name.startswith("onhost/")
        for used in imports
        if used.split(".")[0] not in allowed and not used.startswith("sparkfleet.onhost.")
    ]
    assert foreign == []


def test_the_control_side_imports_only_the_shared_modules_of_onhost() -> None:
    others = {
        f"{name} imports {used}"
        for name, imports in list_imports().items()
        if not name.startswith("onhost/")
        for used in imports
        if used.startswith("sparkfleet.onhost.") and not used.startswith("sparkfleet.onhost.shared")
    }
    assert others == set()


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--version"], {"invoke", "fabric", "paramiko", "jinja2", "ray", "rich", "yaml"}),
        (["--list"], {"fabric", "paramiko", "jinja2", "ray"}),
        (["cluster.up", "--help"], {"fabric", "paramiko", "jinja2", "ray"}),
    ],
)
def test_light_commands_load_nothing_heavy(arguments: list[str], forbidden: set[str]) -> None:
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['sparkfleet', *{arguments!r}]\n"
        "try: runpy.run_module('sparkfleet', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('\\nLOADED', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    loaded = {name.split(".")[0] for name in done.stdout.split("\nLOADED ")[1].split()}
    assert loaded & forbidden == set()
