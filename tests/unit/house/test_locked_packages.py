"""A checkout installs the packages of `.ci/locked`, which hold a hash for each file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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


def _audit(folder: Path, answer: str | None, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run .ci/audit with a pip-audit that answers so; with none where it is None."""
    if answer is not None:
        (folder / "answer").write_text(answer)
        stub = folder / "pip-audit"
        stub.write_text(f'#!/bin/sh\n/bin/cat "{folder}/answer"\necho broken >&2\nexit {code}\n')
        stub.chmod(0o755)
    return subprocess.run(
        [sys.executable, str(ROOT / ".ci/audit"), str(LOCKED / "runtime.txt")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": str(folder)},
    )


ROWS = {
    "good": {"name": "rich", "version": "15.0.0", "vulns": []},
    "bad": {
        "name": "jinja2",
        "version": "3.1.2",
        "vulns": [{"id": "PYSEC-0", "fix_versions": ["3.1.3"]}],
    },
    "skipped": {"name": "ray", "skip_reason": "not found on PyPI"},
}


@pytest.mark.parametrize(
    ("rows", "code", "expected"),
    [
        (["good"], 0, "1 of 1 packages were looked up\n"),
        (["good", "bad"], 1, "jinja2 3.1.2: PYSEC-0, fixed in 3.1.3"),
        (["good", "skipped"], 0, "not looked for, PyPI has no answer here: ray"),
        (["skipped"], 0, "0 of 1 packages were looked up\n"),
    ],
)
def test_an_audit_counts_what_it_could_look_up(
    tmp_path: Path, rows: list[str], code: int, expected: str
) -> None:
    answer = json.dumps({"dependencies": [ROWS[row] for row in rows], "fixes": []})
    done = _audit(tmp_path, answer, code=code)
    assert expected in done.stdout
    assert done.returncode == code, done.stdout


def test_an_audit_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    done = _audit(tmp_path, None)
    assert "runtime.txt: not looked for: pip-audit is not installed" in done.stdout
    assert done.returncode == 0
    done = _audit(tmp_path, "", code=1)
    assert "not looked for: pip-audit: broken" in done.stdout
    assert done.returncode == 0
