"""The machine that controls may be a Mac: what runs there asks for nothing that only Linux has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.weights import bundle

# Names of the standard library that its documentation gives to Linux and not to macOS.
LINUX = {
    "os": "posix_fadvise posix_fallocate fdatasync memfd_create eventfd pidfd_open"
    " sched_getaffinity sched_setaffinity setns unshare copy_file_range splice getrandom O_PATH"
    " O_TMPFILE O_DIRECT",
    "select": "epoll EPOLLIN",
    "signal": "sigtimedwait",
    "socket": "AF_NETLINK AF_PACKET SO_BINDTODEVICE SO_PEERCRED",
    "fcntl": "F_SETPIPE_SZ F_ADD_SEALS F_OFD_SETLK",
}
MAC = f"""
import importlib
for name, lacks in {LINUX!r}.items():
    module = importlib.import_module(name)
    for one in lacks.split():
        vars(module).pop(one, None)
"""
IMPORT = """
import pkgutil, sparkfleet
for found in pkgutil.walk_packages(sparkfleet.__path__, "sparkfleet."):
    if not found.name.startswith(("sparkfleet.onhost.", "sparkfleet.lab.", "sparkfleet.__main__")):
        importlib.import_module(found.name)
"""
HASH = """
import sys, pathlib
from sparkfleet.weights.manifest import build_folder_manifest
print(build_folder_manifest(pathlib.Path(sys.argv[1])).size)
"""
TASK = """
import sys, runpy
runpy.run_module("sparkfleet", run_name="__main__")
"""


def _on_a_mac(program: str, *words: str) -> str:
    line = [sys.executable, "-c", MAC + program, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_module_of_the_control_side_can_be_imported() -> None:
    _on_a_mac(IMPORT)


def test_a_folder_of_weights_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, manifest = bundle(tmp_path)
    (tmp_path / "cache/sparkfleet/hashes.jsonl").unlink()
    assert _on_a_mac(HASH, str(source)) == f"{manifest.size}\n"


@pytest.mark.parametrize(
    "words", [["--list"], ["recipes.list"], ["inventory.graph", "-i", "inventories/pair.yml"]]
)
def test_tasks_that_ask_no_host_run(words: list[str]) -> None:
    assert _on_a_mac(TASK, *words)
