"""The wheel holds the package and its data, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
DATA = ("docs", "inventories", "templates", "playbooks")
SUFFIXES = {".py", ".typed", ".yml", ".j2", ".jinja", ".txt", ".sh", ".css", ".js"}
SUFFIXES |= {".md", ".cast"}  # of the manual
PROGRAMS = "sparkfleet/lab/host/programs/"  # what lab hosts run has no suffix


@pytest.fixture(scope="module")
def content() -> set[str]:
    builder = WheelBuilder(str(ROOT))
    return {file.distribution_path for file in builder.recurse_included_files()}


def test_it_has_every_module_and_every_file_of_data(content: set[str]) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "sparkfleet").rglob("*.py")}
    data = {
        f"sparkfleet/_data/{path.relative_to(ROOT)}"
        for folder in DATA
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    assert modules | data <= content


def test_it_has_nothing_but_the_package(content: set[str]) -> None:
    assert {PurePosixPath(name).parts[0] for name in content} == {"sparkfleet"}


def test_it_has_no_file_of_another_kind(content: set[str]) -> None:
    other = {name for name in content if PurePosixPath(name).suffix not in SUFFIXES}
    assert {name for name in other if not name.startswith(PROGRAMS)} == set()


def test_it_has_no_test_double_and_no_key(content: set[str]) -> None:
    words = ("tests/", "doubles", "hub_server", "id_ed25519", ".pem", "ray-token")
    assert {name for name in content for word in words if word in name} == set()


@pytest.mark.skipif(not (ROOT / ".ci/sbom").exists(), reason="a source distribution lacks .ci")
def test_the_bill_of_materials_has_every_dependency_at_its_locked_version(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".ci/sbom"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document = json.loads(Path(done.stdout.strip()).read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    found = {each["name"]: each["version"] for each in document["components"]}
    locked = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
    )
    versions = {canonicalize_name(name): version for name, version in locked.items()}
    assert {name: versions[name] for name in found} == found
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {canonicalize_name(re.split(r"[<>=]", line)[0]) for line in project["dependencies"]}
    assert direct <= found.keys()
    references = {each["ref"] for each in document["dependencies"]}
    assert {ref for each in document["dependencies"] for ref in each["dependsOn"]} <= references
