"""A checkout installs the packages of `.ci/locked`, which hold a hash for each file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCKED = ROOT / ".ci" / "locked"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")

pytestmark = pytest.mark.skipif(not LOCKED.exists(), reason="a source distribution lacks .ci")


def _read(name: str) -> dict[str, str]:
    """Return the version of each package that a locked file has for Linux, by its name."""
    text = (LOCKED / f"{name}.txt").read_text()
    versions: dict[str, str] = {}
    for entry in re.split(r"\n(?=\w)", text.replace("\\\n", "")):
        words = re.sub(r"^#.*\n?", "", entry, flags=re.MULTILINE)
        if not words.strip():
            continue
        assert HASH.search(words), entry
        requirement = Requirement(HASH.sub("", words).strip())
        if requirement.marker is None or requirement.marker.evaluate():
            versions[canonicalize_name(requirement.name)] = str(requirement.specifier)
    return versions


def _read_constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(name): f"=={version}" for name, version in pairs}


def test_what_is_locked_for_the_tests_are_the_versions_of_the_constraints() -> None:
    assert _read("dev") == _read_constraints()


def test_what_is_locked_for_users_has_every_dependency() -> None:
    runtime, dev = _read("runtime"), _read("dev")
    assert runtime == {name: dev[name] for name in runtime}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {canonicalize_name(Requirement(line).name) for line in needed} <= runtime.keys()


@pytest.mark.parametrize("script", ["prepare", "run"])
def test_nothing_is_installed_without_its_hash(script: str) -> None:
    installs = re.findall(r"pip install .*", (ROOT / ".ci" / script).read_text())
    assert all("--require-hashes" in line or "--no-build-isolation" in line for line in installs)
    assert all("--no-deps" in line for line in installs)
